"""What the kernel tells of this process, its host and its control groups: all that reads /proc and /sys."""
