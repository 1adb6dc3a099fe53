"""Who this process is: its launcher, its numbers, its place in the mesh."""
