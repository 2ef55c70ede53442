"""Where workers run: a small protocol, and Ray behind it."""
