"""Hosts as people type them: ``gpu013``, ``10.0.0.7``, ``gpu[01-04,07]`` with zeros kept, ``gpu*``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dbg_wire.errors import BadTarget, printable

HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""The names of hosts that can be written in a target."""

MAX_HOST = 255
"""Characters of a host or its pattern, as in DNS; bounds the work of matching."""

_PIECE = re.compile(rf"{HOST_NAME.pattern}|\*|\[[^\[\]]*\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class Span:
    """The numbers from ``first`` to ``last``, written with at least ``width`` digits."""

    first: int
    last: int
    width: int

    def fits(self, digits: str) -> bool:
        """Return whether ``digits`` is one of the numbers, with exactly the leading zeros that the width needs."""
        if not (digits.isascii() and digits.isdecimal()):
            return False
        number = int(digits)
        return self.first <= number <= self.last and digits == str(number).zfill(self.width)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host as typed; a piece is ``*``, other literal text, or the numbers of a bracket."""

    text: str
    pieces: tuple[str | tuple[Span, ...], ...]

    @property
    def exact(self) -> str | None:
        """Return the host if only one name fits, also for ``gpu[07]``; None if several names may fit."""
        names = [_only(piece) for piece in self.pieces]
        host = "".join(name for name in names if name is not None)
        return host if host and None not in names else None

    def fits(self, host: str) -> bool:
        """Return whether the whole of ``host`` fits, with the same case.

        All ways to divide the name are followed at the same time, so no pattern makes this slow.
        """
        exact = self.exact
        if exact is not None or len(host) > MAX_HOST:
            return host == exact
        ends = {0}
        for piece in self.pieces:
            ends = {end for start in ends for end in _ends(piece, host, start)}
        return len(host) in ends


def parse_host(text: str) -> HostPattern:
    """Read a host or host pattern; raise :class:`~dbg_wire.errors.BadTarget` with the piece that can't be read."""
    if len(text) > MAX_HOST:
        raise BadTarget(f"host '{printable(text, 40)}' is longer than {MAX_HOST} characters", "write a shorter pattern")
    pieces: list[str | tuple[Span, ...]] = []
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            wrong = "an open bracket" if text[at] == "[" else f"'{printable(text[at])}'"
            raise BadTarget(f"host '{printable(text)}' has {wrong}", "write a host as gpu013, gpu[01-04] or gpu*")
        piece = match.group()
        pieces.append(_parse_bracket(piece) if piece.startswith("[") else piece)
        at = match.end()
    return HostPattern(text, tuple(pieces))


def _parse_bracket(bracket: str) -> tuple[Span, ...]:
    return tuple(_parse_span(span.strip(), bracket) for span in bracket[1:-1].split(","))


def _parse_span(text: str, bracket: str) -> Span:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise BadTarget(f"'{printable(bracket)}' is no list of numbers", "write brackets as [01-04,07]")
    low, high = match.group(1), match.group(2) or match.group(1)
    if int(high) < int(low):
        raise BadTarget(f"range '{text}' in '{printable(bracket)}' is empty", "write the smaller number first")
    return Span(int(low), int(high), len(low))


def _only(piece: str | tuple[Span, ...]) -> str | None:
    """Return what alone fits a piece; None if several texts do."""
    if isinstance(piece, str):
        return piece if piece != "*" else None
    (first, *others) = piece
    return str(first.first).zfill(first.width) if not others and first.first == first.last else None


def _ends(piece: str | tuple[Span, ...], host: str, start: int) -> Iterable[int]:
    if piece == "*":
        return range(start, len(host) + 1)
    if isinstance(piece, str):
        return (start + len(piece),) if host.startswith(piece, start) else ()
    ends = range(start + 1, len(host) + 1)
    return [end for end in ends if any(span.fits(host[start:end]) for span in piece)]
