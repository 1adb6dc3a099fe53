"""Facts about programs that are not ours: launchers, libraries with collectives, system calls, debuggers. Pure."""
