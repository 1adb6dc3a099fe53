"""The text of source files that the process has loaded as code; no other file is ever read."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType

from dbg_agent.frames.loaded_sources import file_of, is_edited, lines_of, read_file
from dbg_agent.frames.stacks import all_frames, outward
from dbg_wire.errors import printable
from dbg_wire.limits import MAX_TEXT
from dbg_wire.records.inspection import SourceText, written_length
from dbg_wire.records.record import clamp

MAX_CHUNK = MAX_TEXT - 300
"""Maximum number of bytes of the path and the lines of one record, counted in the message, where some characters are
escaped. The other fields use the rest of the record."""

MAX_CHUNKS = 16
"""Maximum number of records of one answer; together they use less than a third of the limit of an answer."""


ESCAPED = 6
"""Maximum number of bytes that one character of a text takes in a message, if it is escaped."""


class NotLoaded(Exception):
    """Raised for a file whose text can't be sent; the text is the reason."""


def source_text(path: str, start: int, count: int, frames: Iterable[FrameType] = ()) -> list[SourceText]:
    """Return lines of a loaded file, starting with line number ``start``, counted from 0; raise NotLoaded.

    ``count`` is the number of lines, or 0 for as many as one answer holds.
    """
    codes = _codes_of(path, frames)
    if not codes and not _is_module(path) and not _is_made(path):
        raise NotLoaded(f"the rank has loaded no code from {printable(path)}, and shows no other files")
    if is_edited(path, codes):
        raise NotLoaded(f"{printable(path)} was edited after the rank had loaded it")
    source = read_file(path)
    lines = lines_of(source) if source is not None else _of_loader(path, frames)
    if not lines:
        raise NotLoaded(f"the text of {printable(path)} can't be read where this rank runs")
    room = max(MAX_CHUNK // 4, MAX_CHUNK - written_length(path))
    wanted = lines[start : start + count] if count else lines[start:]
    return [
        clamp(SourceText, path=path, start=first, total=len(lines), lines=text)
        for first, text in _chunks(wanted, start, room)
    ]


def _codes_of(path: str, frames: Iterable[FrameType]) -> set[CodeType]:
    """Return the code objects from this file that are on the stack of some thread."""
    running = (frame for innermost in all_frames().values() for frame in outward(innermost))
    return {frame.f_code for frame in (*frames, *running) if frame.f_code.co_filename == path}


def _is_module(path: str) -> bool:
    # The name of the script that users start may not end in `.py`, so it is compared separately.
    main = vars(sys.modules["__main__"]).get("__file__") if "__main__" in sys.modules else None
    return path == main or any(file_of(module) == path for module in list(sys.modules.values()))


def _is_made(path: str) -> bool:
    """Return True if a path is the name of code without a file, such as ``<string>``, and Python has its text."""
    return path.startswith("<") and path.endswith(">") and path in linecache.cache


def _of_loader(path: str, frames: Iterable[FrameType]) -> list[str]:
    """Return the lines of code without a file of its own: typed in a notebook, made by a library, or in an archive."""
    if os.path.lexists(path):
        return []
    owners = [frame.f_globals for frame in frames if frame.f_code.co_filename == path]
    owners += [vars(module) for module in list(sys.modules.values()) if file_of(module) == path]
    return linecache.getlines(path, owners[0] if owners else None)


def _chunks(lines: list[str], start: int, room: int) -> Iterator[tuple[int, str]]:
    """Yield pieces of the text, each with the number of its first line. A piece takes ``room`` bytes at most."""
    piece: list[str] = []
    size = pieces = 0
    for number, line in enumerate(lines, start):
        text = line.rstrip("\n")
        if written_length(text) > room:
            text = text[: room // ESCAPED]
        length = written_length(text)
        if piece and size + length > room:
            yield number - len(piece), "\n".join(piece)
            piece, size, pieces = [], 0, pieces + 1
            if pieces == MAX_CHUNKS:
                return
        piece.append(text)
        size += length
    if piece:
        yield start + len(lines) - len(piece), "\n".join(piece)
