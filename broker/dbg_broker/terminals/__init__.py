"""Who types, who looks, and what they have still to hear: pure. Neither sockets nor ranks' state."""
