"""Values: their text, digests and parts, and their inspection by an IDE. Nothing here depends on ranks."""
