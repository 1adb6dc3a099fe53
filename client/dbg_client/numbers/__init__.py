"""Verbs about the numbers of a training: the first wrong one, and differences between ranks and between runs."""
