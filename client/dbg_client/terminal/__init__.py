"""Sessions in a terminal: keys, screens, pickers, command rows. ``dbg_client.seat`` decides what a key does."""
