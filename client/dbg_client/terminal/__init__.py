"""Sessions in a terminal: keys, screens, pickers, command rows. seat/ decides the consequences of a key."""
