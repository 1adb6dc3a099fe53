"""How a process becomes a rank, and what happens at its end. Not what a rank does meanwhile."""
