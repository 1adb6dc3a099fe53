"""One stop and its parts: turn, keys, screen and source; neither debuggers nor the broker."""
