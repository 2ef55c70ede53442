"""Owners' tables as whole numbers, their shares, and the halves of results."""
