"""Oblivious transfer: base transfers, their extension, and transfers for each use."""
