"""Readers of the frames and objects of a running program, without running its code."""
