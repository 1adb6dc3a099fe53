"""Adoption: makes ranks of processes that run without our package, by inspection from outside and code injection."""
