"""``dbg-broker completion``: print the shell script that completes verbs and options."""

from __future__ import annotations

import argparse

from dbg_broker.cli.console import write
from dbg_command.command_line import SHELLS, completion_script


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("shell", choices=SHELLS, help="name of the shell")


def run(given: argparse.Namespace) -> int:
    """Run the verb, and return the exit status. Raise OutputError."""
    write(completion_script("dbg-broker", given.shell))
    return 0
