"""Breakpoints that an IDE or an agent sets: where they are put, when they stop, and how a thread stops untraced."""
