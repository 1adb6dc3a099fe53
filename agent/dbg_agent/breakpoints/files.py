"""The files in which breakpoints stand: as an IDE names them, as the program has loaded them, and their lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from types import CodeType

from dbg_agent.breakpoints.insertion import Placed, all_codes, statement_at
from dbg_agent.frames.loaded_sources import compiled_sources, file_of, is_edited, read_file
from dbg_agent.frames.stacks import OWN_PACKAGES, all_frames
from dbg_agent.process.imports import compiled

WITHIN_STATEMENTS = sys.version_info >= (3, 12)
"""Whether the program can stop inside of a statement without tracing: compiled-in calls stand before statements."""

EDITED = "the file has changed since it was loaded; its lines are not those that run"

_OWN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), package, "")  # noqa: PTH118, PTH120
    for package in OWN_PACKAGES
)

MAX_READ = 100


def loaded_path(file: str) -> str | None:
    """Return the path by which the program has loaded this file, absolute; None if it has not.

    A symbolic link, or a mount, may give a file several names.
    """
    name, real = os.path.basename(file), ""  # noqa: PTH119 - no pathlib in a rank
    for path in _loaded_paths():
        if path == file:
            return file
        # The names are compared first: to resolve a path takes long.
        if os.path.basename(path) == name:  # noqa: PTH119
            real = real or os.path.realpath(file)
            if os.path.realpath(path) == real:
                return path
    return None


def _loaded_paths() -> Iterator[str]:
    for module in list(sys.modules.values()):
        path = file_of(module)
        if path is not None:
            yield os.path.abspath(path)  # noqa: PTH100
    for frame in list(all_frames().values()):
        walk = frame
        while walk is not None:
            # A script that another one executes is no module.
            yield os.path.abspath(walk.f_code.co_filename)  # noqa: PTH100
            walk = walk.f_back  # type: ignore[assignment] # the outermost frame has none


def same_file(name: str, files: Collection[str]) -> str:
    """Return which of these files a code object's name for its file means; empty if none."""
    path = os.path.abspath(name)  # noqa: PTH100
    if path in files:
        return path
    alike = [file for file in files if os.path.basename(file) == os.path.basename(path)]  # noqa: PTH119
    real = os.path.realpath(path) if alike else ""
    return next((file for file in alike if os.path.realpath(file) == real), "")


def is_ours(file: str) -> bool:
    """Tell whether a file is part of this package, in which no breakpoint may stand."""
    return os.path.abspath(file).startswith(_OWN)  # noqa: PTH100


def file_bytes(path: str) -> bytes | None:
    """Return the source of a file: as it was loaded if that is known, else as it is now; None if it can't be read."""
    known = compiled_sources.get(path)
    return known if known is not None else _on_disk(path)


def _on_disk(path: str) -> bytes | None:
    found = read_file(path)
    return found[0] if found is not None else None


_read: dict[str, bytes] = {}
"""The texts of files in which a breakpoint was set last: they are read without a lock, and needed under it."""


def source_bytes(path: str) -> bytes | None:
    """Return the source of a file as :func:`place` has read it, without a look at the disk if it has."""
    return compiled_sources.get(path) or _read.get(path) or file_bytes(path)


def place(path: str, line: int) -> Placed:
    """Return the line at which a breakpoint for this line of a file stops, or why there is none.

    The problem beside a line is a warning.
    """
    source = file_bytes(path)
    if source is not None and len(_read) < MAX_READ:
        _read[path] = source
    if source is None:
        return Placed(None, "the file can't be read where this rank runs")
    try:
        code = compiled(source, path)
        within = frozenset(lines_of(code)) if WITHIN_STATEMENTS else frozenset()
        placed = statement_at(source, path, line, within)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Placed(None, f"the file is no Python ({type(error).__name__})")
    # What has breakpoints already is known as it was loaded: the line is one of that text.
    has_changed = _on_disk(path) not in (None, source) if path in compiled_sources else is_edited(path, source)
    return Placed(placed.line, EDITED) if placed.line is not None and has_changed else placed


def lines_of(code: CodeType) -> Iterator[int]:
    """Yield the lines that have code in a module, a class or a function, with those inside of it."""
    for one in all_codes(code):
        yield from (line for _, _, line in one.co_lines() if line)
