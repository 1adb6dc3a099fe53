"""The functions that an executable or a library offers, and what loads it, as its file says. Pure."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from mmap import mmap

_MAGIC = b"\x7fELF\x02\x01"
"""The beginning of a file for a little-endian machine of 64 bits; ours run on no other."""

_DYNSYM, _SYMTAB = 11, 2
_LOAD, _INTERP = 1, 3

_SYMBOL = struct.Struct("<I2xHQQ")

MAX_SYMBOLS = 2_000_000
"""Symbols of a table that are read: those of a static Python with all of its libraries are fewer."""


class NotElf(ValueError):
    """Say that a file is no program or library for this kind of machine."""


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


class Elf:
    """One file's tables. Raises NotElf for other files, and for those that are cut off or damaged."""

    def __init__(self, data: bytes | mmap) -> None:
        if data[: len(_MAGIC)] != _MAGIC:
            raise NotElf
        self._data = data
        try:
            head = struct.unpack_from("<QQIHHHHHH", data, 0x20)
            segments, sections, _, _, segment_size, segment_count, section_size, section_count, _ = head
            self._segments = [self._segment(segments + at * segment_size) for at in range(segment_count)]
            self._sections = [self._section(sections + at * section_size) for at in range(section_count)]
        except (struct.error, OverflowError):
            raise NotElf from None

    @property
    def loader(self) -> str:
        """Return the path of the program that loads this one, empty for a library and for a static program."""
        found = next((segment for segment in self._segments if segment.kind == _INTERP), None)
        if found is None:
            return ""
        return self._data[found.offset : found.offset + found.size].rstrip(b"\0").decode("utf-8", "replace")

    @property
    def lowest(self) -> int:
        """Return the address that the file wants for its first byte; 0 where it may be loaded anywhere."""
        return min((part.address - part.offset for part in self._segments if part.kind == _LOAD), default=0)

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

    def _segment(self, at: int) -> _Segment:
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", self._data, at)
        return _Segment(kind, offset, address, size)
