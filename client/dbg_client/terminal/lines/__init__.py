"""The display of a line debugger: a prompt, and the rank's output above it. `terminal.raw` shows PuDB's screen."""
