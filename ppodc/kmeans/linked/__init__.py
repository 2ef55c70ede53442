"""k-means in which each entity counts once: records are linked first."""
