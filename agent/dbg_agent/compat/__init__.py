"""Debugging helpers of other projects under their own names, for programs that call them already."""
