"""The command line of ``dbg-attach`` and of a session: words to verbs, help, and completion."""
