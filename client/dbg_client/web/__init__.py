"""``dbg-attach web``: ranks in a browser page, served on this host's loopback while the command runs."""
