"""A two-party engine on secret shares: oblivious transfer and what is built on it. Knows no job."""
