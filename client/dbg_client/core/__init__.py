"""Connection to the broker, its ranks, and questions to them, for all front ends. Nothing here needs a terminal."""
