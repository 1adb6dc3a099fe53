"""Debuggers as views of a stop; each is imported when it is first opened, and sees its rank through ``port`` alone."""
