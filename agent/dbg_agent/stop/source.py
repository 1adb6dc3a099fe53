"""The lines around a frame's current line, from the rank's own files."""

from __future__ import annotations

import linecache
import os
from collections.abc import Mapping, Sequence
from types import FrameType

from dbg_agent.stop.stacks import place_of
from dbg_wire.limits import SOURCE_LINES
from dbg_wire.messages import Source
from dbg_wire.records.record import fitted


def source_of(frame: FrameType, breaks: Mapping[str, Sequence[int]]) -> Source:
    """Return the source around a frame's line; without lines if there is no source."""
    where = place_of(frame)
    lines = linecache.getlines(where.file, frame.f_globals)
    first = max(1, where.line - SOURCE_LINES)
    shown = lines[first - 1 : where.line + SOURCE_LINES]
    marked = breaks.get(os.path.normcase(os.path.abspath(where.file)), ())  # noqa: PTH100 - as bdb names files
    return fitted(
        Source,
        where=where,
        first=first,
        lines=tuple(line.rstrip("\n") for line in shown),
        breakpoints=tuple(line for line in sorted(marked) if first <= line < first + len(shown)),
    )
