"""The Python of a process: its version, and where the functions are that a debugger calls in it."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dbg_client.adopt.elf import Elf, NotElf
from dbg_client.adopt.process import PROC, Mapping

NEEDED = (
    *("PyGILState_Check", "PyGILState_Ensure", "PyGILState_Release", "PyRun_SimpleString", "Py_AddPendingCall"),
    *("Py_IsInitialized", "_PyRuntime"),
)
"""The functions without which a debugger can do nothing."""

_VERSION = re.compile(r"python(\d)\.(\d+)(t?)(?=[/.]|\Z)")
_LIBRARY = re.compile(r"/libpython3[^/]*\.so[^/]*\Z")
_C_LIBRARY = re.compile(r"/(libc\.so\.6|libc-2\.\d+\.so)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPython:
    """A process's Python: (3, 11), whether it is one without the interpreter's lock, and addresses of functions.

    ``runtime`` are the addresses of the interpreter's own state, its lock included.
    ``missing`` are functions that the file does not show, ``is_musl`` says that its C library is another one than ours.
    """

    version: tuple[int, int] | None
    free_threaded: bool
    functions: dict[str, int]
    runtime: range
    missing: tuple[str, ...]
    is_musl: bool


def find_python(pid: int, mapped: Sequence[Mapping]) -> TargetPython | None:
    """Return the Python in a process, None if it has none. Blocks while files are read. Raises OSError."""
    executable = str((PROC / str(pid) / "exe").readlink())
    library = next((part for part in mapped if _LIBRARY.search(part.path)), None)
    if library is None:
        library = next((part for part in mapped if part.path == executable), None)
        if library is None or not _is_interpreter(executable, mapped):
            return None
    found = _functions(pid, library, NEEDED)
    c_library = next((part for part in mapped if _C_LIBRARY.search(part.path)), None)
    if c_library is not None:
        found |= _functions(pid, c_library, ("mmap", "munmap"))
    begin, size = found.get("_PyRuntime", (0, 0))
    version, free_threaded = _version([library.path, executable, *(part.path for part in mapped)])
    return TargetPython(
        version=version,
        free_threaded=free_threaded,
        functions={name: begin for name, (begin, _) in found.items()},
        runtime=range(begin, begin + size),
        missing=tuple(name for name in (*NEEDED, "mmap") if name not in found),
        is_musl=any("/ld-musl-" in part.path for part in mapped),
    )


def _is_interpreter(executable: str, mapped: Sequence[Mapping]) -> bool:
    name = executable.rpartition("/")[2]
    return name.startswith(("python", "pypy")) or any("/lib-dynload/" in part.path for part in mapped)


def _functions(pid: int, part: Mapping, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return where the functions of a mapped file are in the process; the file's name may be that of a newer one."""
    path = PROC / str(pid) / "root" / part.path.lstrip("/")
    if not path.exists():
        path = PROC / str(pid) / "exe"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            elf = Elf(data)
            shift = part.start - elf.lowest
            return {name: (address + shift, size) for name, (address, size) in elf.addresses(names).items()}
        except NotElf:
            return {}


def _version(paths: Sequence[str]) -> tuple[tuple[int, int] | None, bool]:
    for path in paths:
        found = _VERSION.search(Path(path).name) or _VERSION.search(path)
        if found:
            return (int(found[1]), int(found[2])), bool(found[3])
    return None, False
