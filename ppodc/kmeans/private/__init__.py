"""k-means whose every opened value is noisy: differential privacy added inside the two clouds."""
