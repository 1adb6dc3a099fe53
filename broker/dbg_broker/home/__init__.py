"""The broker's home on disk: its certificate, tokens, lock and address, and who needs it. Nothing of connections."""
