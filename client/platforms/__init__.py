"""Where a job of an estimator, or of two owners, runs: threads, this machine, a deployment."""
