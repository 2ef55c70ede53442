"""Jobs on worker pairs, of any kind: shards, steps, the state of a job at one cloud."""
