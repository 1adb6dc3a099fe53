"""What ``dbg-broker run`` and the terminal that it has started tell each other, over a pair of sockets: lines of JSON.

The run sends its task once, and later that the job is over; a run that ends without the second was killed. The terminal
sends what the next run of the same command needs. Both are of one installation, so there are no versions to agree on.
"""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from dbg_wire.errors import PeerError
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.record import Record, plain

REPORT, END = "report", "end"
ON_HANG = (REPORT, END)
"""What may be done about a hang: a report is written beside the job's output; the job is ended then."""

JOB_IS_OVER = b"over\n"

_Item = TypeVar("_Item")


class Task(Record, forbid_unknown_fields=True):
    """The terminal's task: the job whose stops it follows, and where the job's output is.

    ``ranks`` is a target without a job, ``prefer`` the global number of the rank that was followed last time;
    ``commands`` is the file whose lines pdb is told first, ``attach`` is False where there is no terminal to attach.
    ``stops`` are the places at which ranks were asked to stop, as one names them. With ``tmux`` each rank that stops
    gets a pane of tmux beside the one that the terminal is in. ``hang_after`` is for how many seconds no rank has to
    move until the terminal says why; None: it never does. ``on_hang`` is one of ON_HANG, None if it only says why.
    ``web`` says whether it serves the job as a page in a browser. ``ends_at`` is when the scheduler ends the job, in
    seconds since 1970, None if that is not known.
    """

    job: str
    output: str
    ranks: str = "all"
    prefer: int | None = None
    commands: str | None = None
    attach: bool = True
    stops: tuple[str, ...] = ()
    tmux: bool = False
    hang_after: float | None = None
    on_hang: str | None = None
    ends_at: float | None = None
    web: bool = False


class Told(Record, forbid_unknown_fields=True):
    """What has happened in the terminal; each replaces the one before.

    ``rank`` is the global number of the rank attached to last, None before the first. ``again`` asks for the end of
    the job and another run of it. ``took_part`` says whether any rank of the job ever connected. ``hung`` asks for the
    end of the job, which hangs.
    """

    rank: int | None = None
    breakpoints: tuple[Breakpoint, ...] = ()
    again: bool = False
    took_part: bool = False
    hung: bool = False


def encode_line(item: Task | Told) -> bytes:
    """Return an item as a line."""
    # A path may hold what is no UTF-8, which JSON of the standard library escapes.
    return json.dumps(plain(item), separators=(",", ":")).encode() + b"\n"


def decode_task(line: bytes) -> Task:
    """Return the task of a line; raise PeerError for any other line."""
    return _decoded(Task, line, "no task")


def decode_told(line: bytes) -> Told:
    """Return what the terminal tells in a line; raise PeerError for any other line."""
    return _decoded(Told, line, "nothing a terminal says")


def _decoded(kind: type[_Item], line: bytes, otherwise: str) -> _Item:
    try:
        return msgspec.convert(json.loads(line), kind)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"{otherwise} ({type(error).__name__})") from None
