"""A place where bytes of others are read, and bytes that are read there every day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One place; ``run`` raises for a finding alone."""

    name: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def text_of(data: bytes) -> str:
    """Return bytes as a text; bytes that are no UTF-8 become lone surrogates, as in arguments and variables."""
    return data.decode("utf-8", "surrogateescape")


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Yield bytes in reads of sizes that the first byte decides: all at once, or one to fifteen at a time and more."""
    first, rest = (data[0], data[1:]) if data else (0, b"")
    size = (first & 15) or len(rest) or 1
    step = first >> 4
    at = 0
    while at < len(rest):
        yield rest[at : at + size]
        at += size
        size += step


def whole(*seeds: bytes) -> tuple[bytes, ...]:
    """Return seeds for a target that takes its bytes by :func:`pieces_of`: each in one read, and in reads of three."""
    return tuple(first + seed for seed in seeds for first in (b"\x00", b"\x03"))
