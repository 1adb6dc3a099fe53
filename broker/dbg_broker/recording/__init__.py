"""Recordings of what was shown and typed at stops, as asciicast files that terminals can play again."""
