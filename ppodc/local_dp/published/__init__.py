"""Mechanisms as their papers publish them, for comparison."""
