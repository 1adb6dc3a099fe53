"""Debuggers as views of a stop: PuDB and pdb, each imported when it is first opened, and the code that they share."""
