"""Make a process a rank without a change to its code: called by the one line in site-packages.

``dbg-broker run`` sets ``DBG_AUTOSTART`` to its process id, a job script to any word, and it is handed down to all
that the job starts. Of these the rank is the outermost Python program that is no launcher: it claims its place, in the
same variable, and what it starts is part of it, unless a launcher has given that another place. A launcher never is a
rank; the place that it was given, if it gives its children none of their own, goes to a script that it starts.

Whoever is no rank, a helper or a child, has the stops in its code all the same, and connects if it gets to one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from enum import Enum

VARIABLE = "DBG_AUTOSTART"

_TOOLS = frozenset(
    {
        *("pip", "pip3", "pipx", "ensurepip", "venv", "virtualenv", "build", "uv", "poetry", "conda", "mamba", "pdm"),
        *("hatch", "pre-commit", "pre_commit", "ruff", "black", "mypy", "dbg-broker", "dbg-attach", "dbg_broker"),
        *("compileall", "dbg_client", "multiprocessing"),
    }
)
"""Programs and modules that no job consists of, though job scripts call them; our own commands among them."""


class Part(Enum):
    """What a process is in the job."""

    RANK = "rank"
    LAUNCHER = "launcher"
    HELPER = "helper"


_has_begun = False


def begin() -> None:
    """Make this process what it is in the job; never raise. More than one call is one: so many lines may be installed.

    The interpreter is still starting: there is neither a ``__main__`` nor the path of the program's own modules.
    """
    global _has_begun  # noqa: PLW0603 - one per process
    if _has_begun:
        return
    _has_begun = True
    try:
        _begin(os.environ)
    except Exception as error:
        from .say import say

        say(f"this process can't take part in the job ({type(error).__name__}: {error}); going on without a debugger")


def _begin(environ: Mapping[str, str]) -> None:
    value = environ.get(VARIABLE, "")
    program = Program(sys.argv, sys.orig_argv)
    part = Part.HELPER
    # A helper of one line is told apart without looking further, since there may be many.
    if program.is_script or _is_started_by(value, os.getppid()):
        place = _place()
        part = part_of(value, place, program, pid=os.getpid(), parent=os.getppid(), environ=environ)
        if part is not Part.HELPER:
            os.environ[VARIABLE] = f"{part.value}:{os.getpid()}:{place}"
    if part is not Part.LAUNCHER and (environ.get("DBG_STOP_AT") or environ.get("DBG_STOP_IN")):
        _have_stops(program, is_rank=part is Part.RANK)
    # `python -m dbg_agent` does so itself, once it knows the program.
    if part is Part.RANK and program.module != "dbg_agent":
        from . import install

        install()


def _have_stops(program: Program, *, is_rank: bool) -> None:
    from . import stop_points

    if stop_points.begin(os.environ, is_rank=is_rank):
        from . import stop_imports

        stop_imports.begin(program.file)


class Program:
    """What an interpreter was told to run, as known while it starts: ``argv``, and the whole command line."""

    def __init__(self, argv: Sequence[str], original: Sequence[str]) -> None:
        first = argv[0] if argv else ""
        self.argv = argv
        self.module: str | None = None
        self.file: str | None = None
        if first == "-m":
            from .identity import started_module

            self.module = started_module(argv, original)
        elif first not in ("", "-", "-c"):
            self.file = first
        name = (self.module or "").partition(".")[0] or first.rpartition("/")[2]
        # Also of `pip3.11`.
        self.is_tool = name in _TOOLS or name.rstrip("0123456789.") in _TOOLS

    @property
    def is_script(self) -> bool:
        """Say whether it is a file or a module, and not a line of code or a conversation."""
        return self.module is not None or self.file is not None


def part_of(value: str, place: str, program: Program, *, pid: int, parent: int, environ: Mapping[str, str]) -> Part:
    """Return what a process is in its job; pure.

    ``value`` is that of ``DBG_AUTOSTART``, ``place`` what launchers have made of this process.
    """
    from .identity import is_launcher

    if is_launcher(program.argv, program.module, environ):
        return Part.LAUNCHER
    if program.is_tool:
        return Part.HELPER
    claimant, claimed, claimed_place = _claim(value)
    if claimant == pid or claimed is None:
        return Part.RANK if program.is_script or _is_started_by(value, parent) else Part.HELPER
    if not program.is_script:
        return Part.HELPER
    # A child whose launcher's variables were taken away is nobody new.
    is_placed_anew = place not in (claimed_place, NO_PLACE)
    inherits = place == claimed_place and claimed is Part.LAUNCHER and claimant == parent
    return Part.RANK if is_placed_anew or inherits else Part.HELPER


def _is_started_by(value: str, parent: int) -> bool:
    """Say whether whoever set the variable has started this process itself."""
    return value == str(parent)


def _claim(value: str) -> tuple[int | None, Part | None, str]:
    """Return who has claimed which place as what; nothing if it is as ``run`` has set it."""
    part, _, rest = value.partition(":")
    pid, _, place = rest.partition(":")
    if part not in (Part.RANK.value, Part.LAUNCHER.value) or not pid.isdecimal():
        return None, None, ""
    return int(pid), Part(part), place


NO_PLACE = "none"
"""Place of a program that no launcher has started."""


def _place() -> str:
    """Return what launchers have made of this process: two have the same only if one is the other's child."""
    from .identity import this_process

    me = this_process()
    return NO_PLACE if me.launcher == NO_PLACE else f"{me.launcher}/{me.run}/{me.rank}"
