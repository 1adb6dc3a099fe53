"""Stock debuggers without the agent: their connections, and each one as a rank."""
