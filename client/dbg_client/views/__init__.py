"""Ranks, answers, stacks and the status line as text, tables and JSON. Pure; asks nobody and draws nothing."""
