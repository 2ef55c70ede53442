"""The platform, and a single pair, on this machine."""
