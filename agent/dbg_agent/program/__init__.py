"""How this process becomes a rank, and how the rank ends. The rank itself is in ``dbg_agent.rank``."""
