"""Ranks, answers, stacks and the status line as text, tables and JSON. Pure: no queries, no drawing."""
