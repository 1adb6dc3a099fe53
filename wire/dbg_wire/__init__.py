"""What the three roles say to each other. Pure: no I/O, no clock; msgspec beside the standard library."""
