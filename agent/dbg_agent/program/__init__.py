"""The start and end of a rank in this process; the life of a rank in between is elsewhere."""
