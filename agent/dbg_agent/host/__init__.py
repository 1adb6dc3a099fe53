"""Kernel data about this process, its host and its control groups: all code that reads /proc and /sys."""
