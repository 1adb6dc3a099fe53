"""How this process becomes a rank, and how the rank ends. What a rank does in between is in ``dbg_agent.rank``."""
