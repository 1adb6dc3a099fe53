"""The parts of a stop: its turn, its keys and work, and interrupts. Nothing here depends on debuggers or the broker."""
