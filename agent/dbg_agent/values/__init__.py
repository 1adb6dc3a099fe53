"""The description of a value: its text, its digests, its parts. Nothing here knows of ranks or questions."""
