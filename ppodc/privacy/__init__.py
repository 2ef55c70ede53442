"""Differential privacy: exact noise, what a mechanism guarantees, and what an owner has spent."""
