"""Audit: a cloud's half of a finished job, run again from its record and compared."""
