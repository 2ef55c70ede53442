"""Tables of different columns about the same people, joined by a rule; nobody learns who."""
