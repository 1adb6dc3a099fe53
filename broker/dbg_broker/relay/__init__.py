"""The relay between ranks and terminals: who sits where, and what passes. It knows only connections and messages."""
