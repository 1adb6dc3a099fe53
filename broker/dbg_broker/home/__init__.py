"""The broker's home on disk: its certificate, its tokens, its lock, and who needs it."""
