"""How a process becomes a rank, and what happens at its end; not what a rank does in between."""
