"""Notes before a job starts on stops that name a file or module that isn't there; nothing is imported."""

from __future__ import annotations

import difflib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dbg_wire.errors import printable
from dbg_wire.records.stop_points import StopAt, StopIn

MAX_SECONDS = 1.0
"""Seconds that looking may take before the job starts; what isn't found by then may be there."""

_SKIPPED = frozenset({".git", "__pycache__", "node_modules", ".venv"})
"""Folders without sources of the program: a `.venv` is looked through where it is on the path."""


def notes_of_unfound(stops: Sequence[StopAt | StopIn], directory: str, command: Sequence[str]) -> list[str]:
    """Return a sentence for each stop whose file or module is neither below the directory nor on the path."""
    here = _Files(directory, time.monotonic() + MAX_SECONDS)
    return [note for stop in stops if (note := _note_of(stop, here, directory, command)) is not None]


def _note_of(stop: StopAt | StopIn, here: _Files, directory: str, command: Sequence[str]) -> str | None:
    if isinstance(stop, StopIn):
        ends, what = _ends_of_module(stop.module), f"module {stop.module}"
        if stop.module == "__main__" or stop.module.partition(".")[0] in sys.stdlib_module_names:
            return None
    else:
        file = stop.file if stop.file.endswith(".py") else f"{stop.file}.py"
        ends, what = [os.path.normpath(file)], file
    path = _path(directory, command)
    if any(Path(entry, end).exists() for end in ends for entry in path) or here.has(ends):
        return None
    if any(_Files(entry, here.deadline).has(ends) for entry in path[1:]) or time.monotonic() > here.deadline:
        return None
    meant = _meant(stop, ends[0], here)
    guess = f"; did you mean {printable(meant)}?" if meant else ""
    return f"{printable(str(stop))}: there is no {printable(what)} here or on the path{guess}"


def _ends_of_module(module: str) -> list[str]:
    base = module.replace(".", "/")
    return [f"{base}.py", f"{base}/__init__.py"]


def _meant(stop: StopAt | StopIn, end: str, here: _Files) -> str | None:
    known = {str(Path(file).relative_to(here.root)): None for file in here.files}
    names = {Path(file).name: file for file in reversed(known)}
    found = difflib.get_close_matches(end, known, 1) or [
        names[name] for name in difflib.get_close_matches(Path(end).name, names, 1)
    ]
    if not found:
        return None
    if isinstance(stop, StopAt):
        return found[0]
    return found[0].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _path(directory: str, command: Sequence[str]) -> list[str]:
    """Return where the job's Python most likely looks for modules, the directory first."""
    scripts = [str(Path(directory, word).parent) for word in command if word.endswith(".py")]
    named = [str(Path(directory, entry)) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    ours = [entry for entry in sys.path if entry and Path(entry).is_dir()]
    return list(dict.fromkeys([directory, *scripts, *named, *ours]))


@dataclass
class _Files:
    """The source files below a folder, found as far as time allows."""

    root: str
    deadline: float
    files: list[str] = field(default_factory=list)
    _rest: Iterator[str] | None = None

    def has(self, ends: Sequence[str]) -> bool:
        """Tell whether the path of one of the files ends with one of ``ends``."""
        wanted = tuple(end if end.startswith("/") else f"/{end}" for end in ends)
        if any(file.endswith(wanted) for file in self.files):
            return True
        if self._rest is None:
            self._rest = self._walk()
        for file in self._rest:
            self.files.append(file)
            if file.endswith(wanted):
                return True
        return False

    def _walk(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.root):
            if time.monotonic() > self.deadline:
                return
            folders[:] = [name for name in folders if name not in _SKIPPED]
            yield from (f"{folder}/{name}" for name in names if name.endswith(".py"))
