"""Recordings that tests play, in memory."""

from __future__ import annotations

import io
import json

from dbg_client.replay.tape import Tape

HEADER = {"version": 3, "term": {"cols": 80, "rows": 24}, "title": "job/gpu1:5, stop 1"}

Line = tuple[float, str, str]


def cast(*events: Line, header: object = HEADER) -> bytes:
    """Return a recording's file."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in (header, *events))


def tape(*events: Line, idle: float = 2.0) -> Tape:
    """Return a recording with these events."""
    return Tape(io.BytesIO(cast(*events)), "a.cast", idle)


def screen(text: str, rows: int = 24) -> str:
    """Return output that draws a whole screen as PuDB does, row for row, with a text in the first row."""
    return "".join(f"\x1b[{row};1H{text if row == 1 else ''}" for row in range(1, rows + 1))
