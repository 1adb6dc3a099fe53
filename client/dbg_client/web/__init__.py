"""``dbg-attach web``: the ranks as a page in a browser, served on this host's loopback as long as the command runs."""
