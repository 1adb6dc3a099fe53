"""Processes that are ours or a launcher's, and so never ranks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbg_wire.tables.launchers import RANK_VARIABLES, is_launcher

_COMMANDS = frozenset({"dbg-attach", "dbg-broker", "dbg_client", "dbg_broker"})


_SCHEDULERS_JOB = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
"""The variables in which schedulers name a job: a user may have several on a node, and means the one at hand."""


def is_guard(argv: Sequence[str]) -> bool:
    """Tell whether a command line is that of a rank's guard."""
    return any(word.endswith("/dbg_agent/guard/process.py") for word in argv)


def is_ours(command: Sequence[str]) -> bool:
    """Tell whether a program's words are those of a command of ours, or of a guard."""
    name = _module(command).partition(".")[0] or (command[0].rpartition("/")[2] if command else "")
    return name in _COMMANDS or is_guard(command)


def starts_ranks(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Tell whether a program's words are those of a launcher."""
    module = _module(command)
    return is_launcher(command[1:] if module else command, module or None, environ)


def _module(command: Sequence[str]) -> str:
    """Return the module of ``-m module``, empty for other programs."""
    return command[1] if len(command) > 1 and command[0] == "-m" else ""


def is_of_job(environ: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Tell whether a process is of the scheduler's job in which this command runs; any is where it runs in none."""
    return all(environ.get(name) == own[name] for name in _SCHEDULERS_JOB if own.get(name))


def place_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables by which launchers tell a process its rank, the innermost launcher's first; maybe none."""
    return tuple(
        (name, environ[name])
        for name, needs in RANK_VARIABLES.items()
        if environ.get(name, "").isdecimal() and (not needs or environ.get(needs))
    )
