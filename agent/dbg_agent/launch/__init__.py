"""The identity of this process: its launcher, its numbers, its ancestors."""
