"""Measurements behind `ppodc bench ldp`: published tables, noise in the clouds, others beside."""
