"""Measurements of record linkage: costs, pairs left to compare, and quality beside other tools."""
