"""How ranks are named on a command line: the grammar of targets, sets of ranks, patterns of hosts. Pure."""
