"""The display of a line debugger: a prompt, and the rank's output above it. PuDB's screen is `terminal.raw`'s."""
