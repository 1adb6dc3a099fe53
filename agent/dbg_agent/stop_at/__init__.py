"""Stops without a change of code: where they are put, and whether they were reached. Not what a reached stop does."""
