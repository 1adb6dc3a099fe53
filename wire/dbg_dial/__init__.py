"""How each role reaches the broker: its address, secrets, the pinned connection. Knows no role and no message."""
