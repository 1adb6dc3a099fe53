"""Ranks and their guards: what they say, what is known of them, what they are asked, and who follows. No terminals."""
