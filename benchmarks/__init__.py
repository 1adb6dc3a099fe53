"""What the debugger costs, in figures, beside what the same costs without it: ``python -m benchmarks [ROW…]``."""
