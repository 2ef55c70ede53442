"""Products under ring-LWE encryption."""
