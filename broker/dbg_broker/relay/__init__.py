"""The relay between ranks and terminals: the terminals' seats at ranks, and the data in both directions."""
