"""k-means on secret shares; the suite to use."""
