"""Debuggers as views of a stop. Each is imported when it is first opened, and sees its rank only through ``port``."""
