"""Measurements of k-means: costs over sizes, primitives and pairs, and beside other systems."""
