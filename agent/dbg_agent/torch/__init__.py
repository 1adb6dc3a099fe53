"""Data of torch about its groups, collectives and timeouts, read without calling its Python code."""
