"""Verbs: each is one object with its options, its states of ranks, its question, and the display of its answer."""
