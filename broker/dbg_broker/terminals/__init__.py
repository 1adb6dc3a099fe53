"""Terminals: their messages, their questions to ranks, and the data that waits to be sent to them. No seats."""
