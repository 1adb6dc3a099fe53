"""What the figures are compared with: the plainest programs that do the same."""
