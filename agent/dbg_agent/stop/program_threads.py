"""The Python threads of the program, without our own; from any thread, and without a lock."""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any, NamedTuple

from dbg_agent.stop.stacks import all_frames, is_own
from dbg_wire.limits import MAX_THREADS

OWN_NAMES = "dbg-agent"
"""How the names of our threads begin: one that has just been started has no frame of ours yet."""

UNNAMED = "unnamed"
"""The name of a thread that C code has made and Python knows nothing of."""


class ProgramThread(NamedTuple):
    """One thread and its innermost frame; ``object`` is the one of :mod:`threading`, None if that knows none."""

    ident: int
    name: str
    frame: FrameType
    object: Any


def program_threads(halted: int | None = None) -> list[ProgramThread]:
    """Return at most MAX_THREADS threads, the main one first, then the thread ``halted``."""
    main = threading.main_thread().ident
    frames = all_frames()
    # `threading.enumerate` takes a lock, which a thread that stands in a stop may hold.
    known = dict(getattr(threading, "_active", {}))
    idents = [ident for ident in frames if ident == main or not _is_ours(known.get(ident), frames[ident])]
    idents.sort(key=lambda ident: (ident != main, ident != halted))
    return [
        ProgramThread(ident, _name(known.get(ident)), frames[ident], known.get(ident)) for ident in idents[:MAX_THREADS]
    ]


def _name(thread: Any) -> str:
    name = getattr(thread, "_name", None)
    return name if isinstance(name, str) and name else UNNAMED


def _is_ours(thread: Any, frame: FrameType) -> bool:
    """Tell whether our code is the outermost of a thread, apart from what starts every thread."""
    if _name(thread).startswith(OWN_NAMES):
        return True
    outermost: FrameType | None = None
    walk: FrameType | None = frame
    while walk is not None:
        if walk.f_globals.get("__name__") != "threading":
            outermost = walk
        walk = walk.f_back
    return outermost is not None and is_own(outermost)
