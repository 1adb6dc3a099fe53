"""The library below every face: the broker, its ranks, questions to them. Knows no terminal."""
