"""The files in which breakpoints stand: as an IDE names them, as the program has loaded them, and their lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator

from dbg_agent.breakpoints.placing import Placed, place
from dbg_agent.frames.loaded_sources import file_of, is_edited, read_file
from dbg_agent.frames.stacks import OWN_PACKAGES, all_frames

EDITED = "the file has changed since it was loaded; its lines are not those that run"

_OWN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), package, "")  # noqa: PTH118, PTH120
    for package in OWN_PACKAGES
)


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


def place_in(path: str, line: int) -> Placed:
    """Return the line at which a breakpoint for this line of a file stops, or why there is none.

    The problem beside a line is a warning.
    """
    found = read_file(path)
    if found is None:
        return Placed(None, "the file can't be read where this rank runs")
    try:
        placed = place(found, path, line)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Placed(None, f"the file is no Python ({type(error).__name__})")
    return Placed(placed.line, EDITED) if placed.line is not None and is_edited(path, ()) else placed
