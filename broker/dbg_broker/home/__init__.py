"""The broker's home on disk: its certificate, tokens, lock and address, and which runs need it. No connections."""
