"""Reports of the broker to people: the audit log, and the command of ``--on-event``."""
