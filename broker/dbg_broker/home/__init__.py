"""The broker's home on disk: its certificate, tokens, lock and address. No connections."""
