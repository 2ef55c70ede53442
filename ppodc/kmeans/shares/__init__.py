"""The same steps on secret shares; the suite to use."""
