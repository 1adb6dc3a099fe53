"""The relay between ranks and terminals: who sits where, and what passes between the two. It knows only connections."""
