"""Sessions in a terminal: keys, screens, pickers, command rows. seat/ decides what a key leads to."""
