"""What torch tells of its groups, its collectives and its time limits, without a call into its Python code."""
