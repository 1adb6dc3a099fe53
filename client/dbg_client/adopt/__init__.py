"""Adoption: turns processes that run without our package into ranks, by inspection from outside and code injection."""
