"""Where workers run: a small protocol, and Ray or threads behind it."""
