"""The options of ``--replay``. Pure."""

from __future__ import annotations

from dbg_wire.duration import read_duration
from dbg_wire.errors import BadInput

from .arguments import Arguments

IDLE = 2.0
"""Seconds of the longest pause in a replay; to look at a screen for longer the user pauses it."""

LONGEST_IDLE = 24 * 3600.0


def refuse_with_replay(arguments: Arguments) -> None:
    """Raise BadInput for ``--replay`` beside what is about ranks, and for ``--idle`` without it."""
    if arguments.replay is None:
        if arguments.idle is not None:
            raise BadInput("--idle is for a replay", "add --replay FILE")
        return
    if not arguments.replay:
        raise BadInput("--replay needs a file", "name a .cast file of `dbg-broker serve --record DIR`")
    given = {"a TARGET": arguments.target, "--wait": arguments.wait, "--json": arguments.json or None}
    for name, value in given.items():
        if value is not None:
            raise BadInput(f"{name} is about ranks, and --replay shows a file", "give one of them")


def idle_seconds(text: str | None) -> float:
    """Return the longest pause of a replay in seconds. Raise BadInput."""
    return IDLE if text is None else read_duration(text, "--idle", LONGEST_IDLE)
