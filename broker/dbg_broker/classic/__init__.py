"""Stock debuggers without our agent: their connections, and how each is presented as a rank. Not the hub's rules."""
