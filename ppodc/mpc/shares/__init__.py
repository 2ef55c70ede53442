"""Arithmetic on shares: bits, numbers, comparisons, tables and circuits."""
