"""One viewer at one rank: what it knows and what follows from each thing that happens (pure), joined to the link."""
