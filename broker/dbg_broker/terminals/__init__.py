"""Which terminal types, which ones look, and what each has still to get: pure. Neither sockets nor ranks' state."""
