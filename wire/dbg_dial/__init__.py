"""How each role reaches the broker: where it is, secrets, the pinned connection. Knows no role and no message."""
