"""Campaigns: long randomised tests of the whole platform.

Each is a command, such as `python -m tests.campaigns.faults --schedules 1000 --seed 1 --json F`,
with a target of the same name in the Makefile. It exits with an error if it finds one. The test
suite contains a short run of each.
"""
