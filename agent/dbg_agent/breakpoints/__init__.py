"""Stops at a line or in a function: their placement, their conditions, and stopping a thread that is not traced."""
