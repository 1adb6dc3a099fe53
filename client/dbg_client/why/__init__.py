"""Causes of a hang: verdicts from the evidence of the ranks, as sentences and JSON. Pure."""
