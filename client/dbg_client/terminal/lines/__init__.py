"""The display of a line debugger in a terminal: a prompt, and the rank's output above it."""
