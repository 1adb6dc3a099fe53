"""The command line of `dbg-broker`: its verbs and options, and what is made of them. What a verb does is in `verbs`."""

from dbg_broker.cli.dispatch import main

__all__ = ["main"]
