"""Terminals: what they say and ask of ranks, and what each has still to get. Seats are the relay's."""
