"""Sessions in a terminal: keys, screens, pickers, command rows. What follows from keys is decided elsewhere."""
