"""Readers of the frames and objects of a running program that run none of its code."""
