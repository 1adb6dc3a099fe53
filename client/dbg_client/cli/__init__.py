"""The command `dbg-attach`: its entry, completion and manual page. What verbs and options mean is in `words`."""
