"""Making ranks of processes that run without our package: find them, look at them from outside, have them join."""
