"""Clustering under differential privacy: records perturbed at their owner, one collector."""
