"""What a stop is made of: its turn, keys and work, frames and sources; neither debuggers nor the broker."""
