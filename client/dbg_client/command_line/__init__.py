"""The command line of ``dbg-attach`` and of a session: parsing of verbs, help, and completion."""
