"""The Python of a process: its version, and the addresses of its functions by the symbol tables of its ELF files.

An ELF file says which functions an executable or a library offers.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dbg_client.adopt.process import PROC

_MAGIC = b"\x7fELF\x02\x01"
"""The beginning of a file for a little-endian machine of 64 bits; ours run on no other."""

_DYNSYM, _SYMTAB = 11, 2
_LOAD = 1

_SYMBOL = struct.Struct("<I2xHQQ")

MAX_SYMBOLS = 2_000_000
"""Symbols of a table that are read: those of a static Python with all of its libraries are fewer."""

NEEDED = (
    *("PyGILState_Check", "PyGILState_Ensure", "PyGILState_Release", "PyRun_SimpleString", "Py_AddPendingCall"),
    *("Py_IsInitialized", "_PyRuntime"),
)
"""The functions without which a debugger can do nothing."""

_VERSION = re.compile(r"python(\d)\.(\d+)(t?)(?=[/.]|\Z)")
_LIBRARY = re.compile(r"/libpython3[^/]*\.so[^/]*\Z")
_C_LIBRARY = re.compile(r"/(libc\.so\.6|libc-2\.\d+\.so)\Z")


class NotElf(ValueError):
    """Say that a file is no program or library for this kind of machine."""


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


class Elf:
    """One file's tables. Raises NotElf for other files, and for those that are cut off or damaged.

    ``lowest`` is the address that the file wants for its first byte; 0 where it may be loaded anywhere.
    """

    def __init__(self, data: bytes | mmap.mmap) -> None:
        if data[: len(_MAGIC)] != _MAGIC:
            raise NotElf
        self._data = data
        try:
            head = struct.unpack_from("<QQIHHHHHH", data, 0x20)
            segments, sections, _, _, segment_size, segment_count, section_size, section_count, _ = head
            parts = [struct.unpack_from("<IIQQ", data, segments + at * segment_size) for at in range(segment_count)]
            self._sections = [self._section(sections + at * section_size) for at in range(section_count)]
        except (struct.error, OverflowError):
            raise NotElf from None
        self.lowest = min((address - offset for kind, _, offset, address in parts if kind == _LOAD), default=0)

    def addresses(self, names: Collection[str]) -> dict[str, tuple[int, int]]:
        """Return address and size of those functions and variables that the file defines, as it counts them."""
        wanted = {name.encode(): name for name in names}
        found: dict[str, tuple[int, int]] = {}
        # What stripping leaves comes first: only the other table of a static program has more.
        for kind in (_DYNSYM, _SYMTAB):
            for section in self._sections:
                if section.kind == kind and len(found) < len(wanted):
                    for name, address, size in self._symbols(section):
                        if name in wanted:
                            found.setdefault(wanted[name], (address, size))
        return found

    def _symbols(self, table: _Section) -> Iterator[tuple[bytes, int, int]]:
        try:
            texts = self._sections[table.link]
            size = min(table.size // _SYMBOL.size, MAX_SYMBOLS) * _SYMBOL.size
            for name, section, address, length in _SYMBOL.iter_unpack(self._data[table.offset : table.offset + size]):
                if section and address and name < texts.size:
                    begin = texts.offset + name
                    yield self._data[begin : self._data.find(b"\0", begin)], address, length
        except (struct.error, IndexError, OverflowError):
            raise NotElf from None

    def _section(self, at: int) -> _Section:
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", self._data, at)
        return _Section(kind, offset, size, link)


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


def find_python(pid: int, mapped: Mapping[str, int]) -> TargetPython | None:
    """Return the Python in a process, None if it has none. Blocks while files are read. Raises OSError."""
    executable = str((PROC / str(pid) / "exe").readlink())
    library = next(filter(_LIBRARY.search, mapped), executable)
    if library not in mapped or (library == executable and not _is_interpreter(executable, mapped)):
        return None
    found = _functions(pid, library, mapped[library], NEEDED)
    for c_library in filter(_C_LIBRARY.search, mapped):
        found |= _functions(pid, c_library, mapped[c_library], ("mmap", "munmap"))
    begin, size = found.get("_PyRuntime", (0, 0))
    version, free_threaded = _version([library, executable, *mapped])
    return TargetPython(
        version=version,
        free_threaded=free_threaded,
        functions={name: begin for name, (begin, _) in found.items()},
        runtime=range(begin, begin + size),
        missing=tuple(name for name in (*NEEDED, "mmap") if name not in found),
        is_musl=any("/ld-musl-" in path for path in mapped),
    )


def _is_interpreter(executable: str, mapped: Mapping[str, int]) -> bool:
    name = executable.rpartition("/")[2]
    return name.startswith(("python", "pypy")) or any("/lib-dynload/" in path for path in mapped)


def _functions(pid: int, file: str, start: int, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return where the functions of a mapped file are in the process; the file's name may be that of a newer one."""
    path = PROC / str(pid) / "root" / file.lstrip("/")
    if not path.exists():
        path = PROC / str(pid) / "exe"
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            elf = Elf(data)
            shift = start - elf.lowest
            return {name: (address + shift, size) for name, (address, size) in elf.addresses(names).items()}
        except NotElf:
            return {}


def _version(paths: Sequence[str]) -> tuple[tuple[int, int] | None, bool]:
    for path in paths:
        found = _VERSION.search(Path(path).name) or _VERSION.search(path)
        if found:
            return (int(found[1]), int(found[2])), bool(found[3])
    return None, False
