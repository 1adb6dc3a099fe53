"""Debuggers as views of a stop: plug-ins of a rank, each imported when it is first opened."""
