"""Measurements of clustering under differential privacy: published systems, ours, and peers."""
