"""Ranks and their guards: their messages, their states, open questions to them, and their followers."""
