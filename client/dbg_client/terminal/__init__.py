"""Sessions in a terminal: keys, screens, pickers, command rows. attachment/ decides what a key leads to."""
