"""What a field of a message may hold: the bounds that messages share, and the names that messages give to them.

A bound is a constraint of msgspec, as the annotation of a field; whoever reads a message checks it. A log may show a
text only if its bound says so: names and paths, but nothing that a person typed or a program holds.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta

from dbg_wire import limits

MAX_NUMBER = 2**53
"""Largest integer that every JSON implementation carries exactly, and largest offset: a thousand years at 256 KiB/s."""

MAX_SERIAL = 2**32 - 1
"""Largest number that a binary frame can carry for session, stop and generation."""

MAX_RANK = 10**9
"""Largest rank, world size and line number: a larger one is a mistake, and would only widen every column."""

MAX_AGE = 10 * 365 * 86400.0
"""Seconds of a stop, ten years: no machine is up for longer."""

MAX_PID = 2**31
"""Largest process id that Linux may give."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class InvalidMessage(ValueError):
    """A wrong value, and the field and message that hold it; ``suffix`` is the text after the message's name."""

    def __init__(self, name: str, suffix: str) -> None:
        super().__init__(f"{name}{suffix}")
        self.suffix = suffix


def integers(least: int = -MAX_NUMBER, most: int = MAX_NUMBER) -> Meta:
    """Allow integers of a range."""
    return Meta(ge=least, le=most)


def reals(least: float = -MAX_NUMBER, most: float = MAX_NUMBER) -> Meta:
    """Allow numbers of a range, with a fraction or without."""
    return Meta(ge=least, le=most)


def characters(
    most: int = limits.MAX_TEXT,
    *,
    least: int = 0,
    of: str = "",
    begin: str = "",
    is_shown: bool = False,
) -> Meta:
    """Allow texts of ``least`` to ``most`` characters, all of them among ``of``, that begin with ``begin``."""
    extra: dict[str, Any] = {"is_shown": is_shown, "of": of, "begin": begin}
    pattern = None
    if of or begin:
        # A refusal shows the pattern. `$` would also match before a line feed at the end.
        allowed = re.escape(of).replace(_LETTERS, "A-Za-z0-9")
        pattern = rf"^{re.escape(begin)}" + (rf"[{allowed}]*\Z" if of else "")
    return Meta(min_length=least or None, max_length=most, pattern=pattern, extra=extra)


def elements(count: int) -> Meta:
    """Allow tuples of a number of elements."""
    return Meta(max_length=count)


_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))

Integer = Annotated[int, integers()]

Real = Annotated[float, reals()]

FreeText = Annotated[str, characters()]
"""A text that a person typed or a program holds; a log shows its length alone."""

Items = elements(limits.MAX_ITEMS)
"""The bound of a list that has no narrower one."""

Integers = Annotated[tuple[Integer, ...], Items]

Texts = Annotated[tuple[FreeText, ...], Items]

Count = Annotated[int, integers(0)]
"""A number of things, or an offset in a stream."""

Serial = Annotated[int, integers(0, MAX_SERIAL)]
"""The number of a stop, a session or a generation."""

Line = Annotated[int, integers(0, MAX_RANK)]
"""The number of a line; 0 where there is none."""

RankNumber = Annotated[int, integers(0, MAX_RANK)]

Pid = Annotated[int, integers(0, MAX_PID)]
"""A process id; 0 if it is unknown, as for a stock session."""

Age = Annotated[float, reals(0.0, MAX_AGE)]
"""Seconds since something began."""

Path = Annotated[str, characters(limits.MAX_PATH, is_shown=True)]
"""A path or a function's name. It may contain any character, so the code that shows it escapes it."""

Name = Annotated[str, characters(200, least=1, of=_LETTERS + "._-", is_shown=True)]
"""A part of an address."""

Key = Annotated[str, characters(1000, least=1, of=_VISIBLE, is_shown=True)]
"""The identity of a rank."""

Word = Annotated[str, characters(64, least=1, of=_LETTERS + "._+-", is_shown=True)]
"""A version, an engine, or a reason for programs."""

FrameName = Annotated[str, characters(limits.MAX_FRAME_NAME, is_shown=True)]
"""A frame of a stack as people name it: a function, or a number; empty for the usual one."""

PersonName = Annotated[str, characters(200, least=1, is_shown=True)]
"""The user of a terminal, ``user@host``, as other users see it beside a rank: printable characters."""

Sentence = Annotated[str, characters(is_shown=True)]
"""A text for people that one of the three roles has written itself, so that a log may show it."""
