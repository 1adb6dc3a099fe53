"""The lines of an asciicast of version 3, read as hostile text. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

OUTPUT, RESIZE, MARKER, EXIT = "o", "r", "m", "x"
"""The codes that a replay shows; what was typed is in the file alone."""

MAX_LINE = 4 * 1024 * 1024
"""Bytes of a line: a frame of 64 KiB is 400 KiB at most, and other recorders write longer ones."""

MAX_SECONDS = 366 * 24 * 3600.0
"""Seconds of one interval; a longer one is no recording's."""

MAX_SIDE = 10_000
"""Rows or columns of a screen; a larger one is a mistake."""


_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: the screen's size in the beginning, and what the recording is called."""

    rows: int
    columns: int
    title: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ``interval`` seconds after the one before."""

    interval: float
    code: str
    data: str


def read_header(line: bytes) -> Header | None:
    """Return the header; None if this is not the first line of an asciicast of version 3."""
    document = _json(line)
    if not isinstance(document, dict) or document.get("version") != 3:
        return None
    term, title = document.get("term"), document.get("title")
    if not isinstance(term, dict):
        return None
    rows, columns = _side(term.get("rows")), _side(term.get("cols"))
    if rows is None or columns is None:
        return None
    return Header(rows, columns, title if isinstance(title, str) else "")


def version_of(line: bytes) -> int | None:
    """Return the version that a first line names; None if it names none."""
    document = _json(line)
    version = document.get("version") if isinstance(document, dict) else None
    return version if type(version) is int else None


def read_event(line: bytes) -> Event | None:
    """Return the event of a line; None for a line that is none."""
    document = _json(line)
    if not isinstance(document, list) or len(document) != 3:
        return None
    interval, code, data = document
    if type(interval) not in (int, float) or not isinstance(code, str) or not isinstance(data, str):
        return None
    if not 0 <= interval <= MAX_SECONDS:
        return None
    return Event(float(interval), code, data)


def read_size(text: str) -> tuple[int, int] | None:
    """Return the rows and columns that a resize names, as in ``80x24``; None if it names none."""
    found = _SIZE.fullmatch(text)
    columns, rows = (_side(int(found[1])), _side(int(found[2]))) if found else (None, None)
    return None if rows is None or columns is None else (rows, columns)


def _side(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= MAX_SIDE else None


def _json(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
