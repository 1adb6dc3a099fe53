"""One viewer at one rank, pure: what it knows, and what follows from each thing that happens. Knows no terminal."""
