"""Platforms that run the job of an estimator or of two owners."""
