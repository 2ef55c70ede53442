"""Private record linkage: which records of several owners mean the same entity."""
