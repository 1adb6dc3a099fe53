"""Stock debuggers without the agent: their connections, and how each is presented as a rank. Not the hub's rules."""
