"""Stops at a line or in a function: where they are put, when they stop, and how a thread stops there untraced."""
