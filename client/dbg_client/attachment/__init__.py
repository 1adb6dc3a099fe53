"""One viewer at one rank: what it knows, what follows from each thing that happens. Pure; no screen, no socket."""
