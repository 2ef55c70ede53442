"""Silent transfers: rows of correlated transfers for few bytes, from regular LPN."""
