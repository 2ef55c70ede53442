"""The k-means job: its plan of steps, both suites, and the plaintext reference."""
