"""The Python of a process: its version, and where its files lie in memory, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dbg_client.adopt.process import PROC

_VERSION = re.compile(r"python(\d)\.(\d+)(t?)(?=[/.]|\Z)")
_LIBRARY = re.compile(r"/libpython3[^/]*\.so[^/]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPython:
    """A process's Python: (3, 11), and whether it is one without the interpreter's lock.

    ``memory`` holds the interpreter's own state, its lock included. ``is_musl`` says that its C library is another one
    than ours.
    """

    version: tuple[int, int] | None
    free_threaded: bool
    memory: range
    is_musl: bool


def find_python(pid: int, mapped: Mapping[str, range]) -> TargetPython | None:
    """Return the Python in a process, None if it has none. Raises OSError."""
    executable = str((PROC / str(pid) / "exe").readlink())
    library = next(filter(_LIBRARY.search, mapped), executable)
    if library not in mapped or (library == executable and not _is_interpreter(executable, mapped)):
        return None
    version, free_threaded = _version([library, executable, *mapped])
    return TargetPython(
        version=version,
        free_threaded=free_threaded,
        memory=mapped[library],
        is_musl=any("/ld-musl-" in path for path in mapped),
    )


def _is_interpreter(executable: str, mapped: Mapping[str, range]) -> bool:
    name = executable.rpartition("/")[2]
    return name.startswith(("python", "pypy")) or any("/lib-dynload/" in path for path in mapped)


def _version(paths: Sequence[str]) -> tuple[tuple[int, int] | None, bool]:
    for path in paths:
        found = _VERSION.search(Path(path).name) or _VERSION.search(path)
        if found:
            return (int(found[1]), int(found[2])), bool(found[3])
    return None, False
