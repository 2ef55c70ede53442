"""Totals of every column over all owners: number of records, sum, mean and variance; exact."""
