"""Values: their text, digests and parts, and how an IDE looks into them. Nothing here knows of ranks."""
