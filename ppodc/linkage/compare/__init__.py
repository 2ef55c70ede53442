"""Comparisons on shares: match bits of pairs of records."""
