"""Terminals: their messages, their questions to ranks, and the data that waits for them. Seats are in ``relay/``."""
