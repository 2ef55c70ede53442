"""Workers of a cloud: a small protocol, and Ray or threads behind it."""
