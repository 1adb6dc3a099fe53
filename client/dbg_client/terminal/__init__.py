"""The face in a terminal: keys, screens, sessions, pickers."""
