"""Stock debuggers without the agent: their connections, presented as ranks."""
