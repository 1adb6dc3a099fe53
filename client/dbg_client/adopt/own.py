"""Processes that are ours or a launcher's, and so never ranks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbg_wire.launchers import RANK_VARIABLES, is_launcher

_COMMANDS = frozenset({"dbg-attach", "dbg-broker", "dbg_client", "dbg_broker"})


def is_guard(argv: Sequence[str]) -> bool:
    """Tell whether a command line is that of a rank's guard."""
    return any(word.endswith("/dbg_agent/guard/process.py") for word in argv)


def is_ours(command: Sequence[str]) -> bool:
    """Tell whether a program's words are those of a command of ours, or of a guard."""
    module = command[1] if command[:1] == ("-m",) and len(command) > 1 else ""
    name = module.partition(".")[0] or (command[0].rpartition("/")[2] if command else "")
    return name in _COMMANDS or is_guard(command)


def starts_ranks(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Tell whether a program's words are those of a launcher."""
    module = command[1] if command[:1] == ("-m",) and len(command) > 1 else None
    argv = list(command[1:]) if module else list(command)
    return is_launcher(argv, module, environ)


def place_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables by which launchers tell a process its rank, the innermost launcher's first; maybe none."""
    return tuple(
        (name, environ[name])
        for name, needs in RANK_VARIABLES.items()
        if environ.get(name, "").isdecimal() and (not needs or environ.get(needs))
    )
