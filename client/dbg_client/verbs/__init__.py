"""Verbs of ``dbg-attach``: each class defines the options, the usual ranks, the question, and the answer's text."""
