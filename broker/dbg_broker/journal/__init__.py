"""Reports of the broker to people: the log of who did what, and the command of ``--on-event``."""
