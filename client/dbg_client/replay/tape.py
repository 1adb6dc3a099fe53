"""A recording's file: read once for an index, then in parts, so that a large one takes little memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from dbg_wire.errors import BadInput, printable

from .cast import MARKER, MAX_LINE, OUTPUT, RESIZE, Event, Header, read_event, read_header, read_size, version_of

MAX_MARKS = 10_000
"""Markers that are kept; the broker writes one when the keyboard changes hands."""

MAX_STARTS = 4096
"""Places from which a replay may start; beyond it every second one is dropped."""

ENOUGH = 60_000
"""Characters of output before a moment that are drawn to show it where no whole screen is known. A screen of many
colours takes half of it; what is drawn at once must have room in the queue of a terminal, 256 KiB."""

_ROW = re.compile(r"\x1b\[(\d{1,5})(?:;\d{0,5})?H")
_CLEARED = "\x1b[2J"


@dataclass(frozen=True, slots=True)
class Moment:
    """One event at ``at`` seconds of the replay, which is shorter than the recording by its long pauses."""

    at: float
    event: Event


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker's text and its time."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class _Start:
    """A line from which the screen can be drawn: its time, its place in the file, and the screen's size there."""

    at: float
    offset: int
    rows: int
    columns: int


class Tape:
    """An open recording. ``idle`` bounds the seconds between two events. Methods raise OSError."""

    def __init__(self, file: BinaryIO, name: str, idle: float) -> None:
        """Read the file once. Raise BadInput if it is no recording."""
        self._file = file
        self._idle = idle
        first = file.readline(MAX_LINE)
        header = read_header(first)
        if header is None:
            raise BadInput(*_why_not(name, first))
        self.header: Header = header
        self.marks: list[Mark] = []
        self.broken = 0
        """Lines that are no events; they are left out."""
        self.is_cut = not first.endswith(b"\n")
        """Whether the file ends in the middle of a line."""
        self.duration = 0.0
        self._starts = [_Start(0.0, file.tell(), header.rows, header.columns)]
        self._index()

    def moments(self) -> Iterator[Moment]:
        """Return all events from the beginning."""
        return self._from(self._starts[0])

    def before(self, at: float) -> tuple[tuple[int, int], list[Moment]]:
        """Return the screen's (rows, columns) and the output that draws it as it is at this time."""
        start = self._starts[bisect_right(self._starts, at, key=lambda one: one.at) - 1]
        size, kept, length = (start.rows, start.columns), list[Moment](), 0
        for moment in self._from(start):
            if moment.at > at:
                break
            if moment.event.code == RESIZE:
                size = read_size(moment.event.data) or size
            elif moment.event.code == OUTPUT:
                kept.append(moment)
                length += len(moment.event.data)
            if length > 2 * ENOUGH:
                kept, length = _end_of(kept)
        return size, _end_of(kept)[0]

    def after(self, at: float) -> Iterator[Moment]:
        """Return the events after this time."""
        start = self._starts[bisect_right(self._starts, at, key=lambda one: one.at) - 1]
        return (moment for moment in self._from(start) if moment.at > at)

    # ------------------------------------------------------------------------------------------------------------ inner

    def _index(self) -> None:
        here, rows, columns = self._starts[0].offset, self.header.rows, self.header.columns
        for line, at, event in self._lines(self._starts[0]):
            if event is not None:
                self.duration = at
                if event.code == RESIZE:
                    rows, columns = read_size(event.data) or (rows, columns)
                elif event.code == MARKER and len(self.marks) < MAX_MARKS:
                    self.marks.append(Mark(at, event.data))
                elif event.code == OUTPUT and draws_all(event.data, rows):
                    # The time before the event: it is drawn again when the replay starts here.
                    self._add(_Start(at, here, rows, columns))
            elif line.strip() and not line.startswith(b"#"):
                self.broken += 1
            self.is_cut = not line.endswith(b"\n")
            here += len(line)

    def _add(self, start: _Start) -> None:
        self._starts.append(start)
        if len(self._starts) > MAX_STARTS:
            del self._starts[1::2]

    def _from(self, start: _Start) -> Iterator[Moment]:
        for _, at, event in self._lines(start):
            if event is not None:
                yield Moment(at, event)

    def _lines(self, start: _Start) -> Iterator[tuple[bytes, float, Event | None]]:
        """Yield the lines from a place on, each with its time and its event, None for a line without one."""
        offset, at, is_first = start.offset, start.at, True
        while True:
            # The file is read from several places at once.
            self._file.seek(offset)
            line = self._file.readline(MAX_LINE)
            if not line:
                return
            offset += len(line)
            event = read_event(line)
            if event is not None:
                is_known = is_first and start is not self._starts[0]
                at += 0.0 if is_known else min(event.interval, self._idle)
                is_first = False
            yield line, at, event


def draws_all(data: str, rows: int) -> bool:
    """Tell whether output draws a whole screen, so that nothing before it matters."""
    if _CLEARED in data:
        return True
    return len(data) > rows and len(set(_ROW.findall(data))) >= rows


def _end_of(moments: list[Moment]) -> tuple[list[Moment], int]:
    """Return the last of these whose output is ENOUGH, and how much it is; a part of the first if that is too much."""
    length = 0
    for place in range(len(moments) - 1, -1, -1):
        data = moments[place].event.data
        if length + len(data) > ENOUGH:
            rest = data[len(data) - (ENOUGH - length) :] if length < ENOUGH else ""
            first = replace(moments[place], event=replace(moments[place].event, data=rest))
            return [first, *moments[place + 1 :]], ENOUGH
        length += len(data)
    return moments, length


def _why_not(name: str, first: bytes) -> tuple[str, str]:
    version = version_of(first)
    if version is not None:
        return (
            f"{printable(name)} is an asciicast of version {version}, and --replay plays version 3",
            "convert it with `asciinema convert`",
        )
    return f"{printable(name)} is no recording", "name a .cast file of `dbg-broker serve --record DIR`"
