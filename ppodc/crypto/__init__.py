"""Keys, randomness, and pools of values that are used at most once."""
