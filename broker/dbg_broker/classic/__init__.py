"""Stock debuggers without our agent, presented as ranks."""
