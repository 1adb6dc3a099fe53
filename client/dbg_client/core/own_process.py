"""Command lines of our own programs, which are imported from this installation only. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from dbg_dial.home import AUTOSTART, STOP_AT, STOP_IN

ATTACH, BROKER = "dbg_client.command_line.main", "dbg_broker.cli.main"
"""Modules of dbg-attach and dbg-broker."""

_START = "import sys; del sys.path[0]; from {module} import main; sys.exit(main())"

_OF_RANKS = (AUTOSTART, STOP_AT, STOP_IN)
"""Variables that would turn these programs into ranks if they are started within a run."""


def own_command(module: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of one of these programs. It imports nothing from the user's directory."""
    return [sys.executable, "-c", _START.format(module=module), *arguments]


def own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for these programs, without the variables that would make them ranks."""
    return {name: value for name, value in environ.items() if name not in _OF_RANKS}
