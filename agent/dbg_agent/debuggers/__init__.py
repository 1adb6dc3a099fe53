"""Debuggers as views of a stop: PuDB and pdb, each imported when it is first opened, and what they share."""
