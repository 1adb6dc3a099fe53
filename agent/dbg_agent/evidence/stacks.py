"""Snapshot of the program's threads and their frames, innermost first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import FrameType

from dbg_agent.frames.stacks import is_own, is_users_file, outward, program_thread, program_threads
from dbg_agent.frames.variables import attributes, is_a, is_traced
from dbg_agent.host.process import kernel_thread
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp

MAX_FRAMES = 200
"""Maximum number of frames of a thread that are read, from the innermost one."""

MAX_NAME = 80


@dataclass(slots=True)
class SeenThread:
    """One thread; ``is_main`` is True for the thread that runs the program (:func:`.program_thread`).

    ``native`` is the thread's id in the kernel, or None if unknown. ``places`` are the places of the frames,
    outermost first. ``is_readable`` is True if the variables of the thread's frames may be read.
    """

    ident: int
    name: str
    frames: list[FrameType]
    is_main: bool
    is_daemon: bool
    native: int | None
    places: tuple[Place, ...] = field(init=False)
    is_readable: bool = field(init=False)

    def __post_init__(self) -> None:
        self.places = places_of(self.frames[::-1])
        self.is_readable = not is_traced(self.frames)


def seen_threads(halted: int | None) -> list[SeenThread]:
    """Return the threads of the program, the main thread first; ``halted`` is the ident of a thread in a stop."""
    import threading

    main, first = program_thread(), threading.main_thread().ident
    found = []
    for ident, name, frame, thread in program_threads(halted):
        values = attributes(thread) if is_a(thread, threading.Thread) else {}
        found.append(
            SeenThread(
                ident=ident,
                name=printable(name[:MAX_NAME]),
                frames=_frames(frame),
                is_main=ident == main,
                is_daemon=values.get("_daemonic") is not False,
                native=kernel_thread(values.get("_native_id"), is_main=ident == first),
            )
        )
    return found


def places_of(frames: Sequence[FrameType]) -> tuple[Place, ...]:
    """Return the places of the frames."""
    return tuple(_place(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name) for frame in frames)


@lru_cache(4096)
def _place(file: str, line: int, function: str) -> Place:
    # Cached because threads are mostly at places seen before, and a record costs ten times as much as a lookup.
    return clamp(Place, file=file, line=line, function=function)


def _frames(frame: FrameType | None) -> list[FrameType]:
    return list(islice((one for one in outward(frame) if not is_own(one)), MAX_FRAMES))


def short_place(frames: Sequence[FrameType]) -> Place | None:
    """Return the place of the innermost frame of the user's code, else of the innermost frame; None without frames."""
    frame = next((one for one in frames if is_users_file(one.f_code.co_filename)), frames[0] if frames else None)
    return next(iter(places_of([frame])), None) if frame is not None else None


def module_of(frame: FrameType) -> str:
    """Return the name of the frame's module; empty if it has none."""
    name = frame.f_globals.get("__name__") if type(frame.f_globals) is dict else None
    return name if type(name) is str else ""
