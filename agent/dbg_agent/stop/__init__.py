"""One stop and what belongs to it: its turn, keys, screen and source. Neither debuggers nor the broker."""
