"""What a field of a message may hold: the kinds of bounds, and the names that messages give to common bounds.

A bound says four things about a value: what is wrong with it, how it is read from JSON, how it is written to JSON, and
which allowed value is nearest. Bounds are made at import and read nothing but their own numbers.
"""

from __future__ import annotations

import enum
import math
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from . import limits

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

SHOWN_VALUE = 80
"""Characters of a wrong value that a refusal repeats."""


class InvalidMessage(ValueError):
    """A wrong value, and the field and message that hold it; ``suffix`` is the text after the message's name."""

    def __init__(self, name: str, suffix: str) -> None:
        super().__init__(f"{name}{suffix}")
        self.suffix = suffix


class Bound:
    """What a value may be; this class itself allows true and false only."""

    __slots__ = ()

    is_shown = True
    """Whether a log may show the value: numbers, names and paths, but no typed text and no value of a program."""

    plain: Callable[[Any], object] | None = None
    """Return the value in its JSON form; None if the two are the same."""

    read: Callable[[Any], object] | None = None
    """Return the value of a JSON form, not yet checked; raise InvalidMessage for a wrong shape. None if the two are the
    same."""

    def wrong(self, value: object) -> str:
        """Return what is wrong with a value, as the text after its field's name; empty if nothing is."""
        return "" if value is True or value is False else f" is {shown(value)}, neither true nor false"

    def fit(self, value: Any) -> object:
        """Return the value, or the nearest one that is allowed."""
        return value


class Number(Bound):
    """Allow integers of a range."""

    __slots__ = ("least", "most")

    def __init__(self, least: int = -MAX_NUMBER, most: int = MAX_NUMBER) -> None:
        self.least, self.most = least, most

    def wrong(self, value: object) -> str:
        """Name a number out of the range, or a value that is no number."""
        if type(value) is int and self.least <= value <= self.most:
            return ""
        # bool is a subclass of int, but true and false are no numbers in a message.
        if not isinstance(value, int) or isinstance(value, bool):
            return f" is {shown(value)}"
        return "" if self.least <= value <= self.most else f" is {shown(value)}, not {self.least} to {self.most}"

    def holds_all(self, values: tuple[Any, ...]) -> bool:
        """Tell whether all values are right. This path is fast, as a held rank sends all the ranks it waits for."""
        return set(map(type, values)) == {int} and self.least <= min(values) and max(values) <= self.most

    def fit(self, value: int) -> int:
        """Return the number, or the nearer end of the range."""
        return max(self.least, min(value, self.most))


class Seconds(Bound):
    """Allow finite numbers of a range, with a fraction or without."""

    __slots__ = ("least", "most")

    def __init__(self, least: float = -MAX_NUMBER, most: float = MAX_NUMBER) -> None:
        self.least, self.most = least, most

    def wrong(self, value: object) -> str:
        """Name a number out of the range, or a value that is no number."""
        if isinstance(value, float) and self.least <= value <= self.most:
            return ""
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return f" is {shown(value)}"
        return "" if self.least <= value <= self.most else f" is {shown(value)}, not {self.least:g} to {self.most:g}"

    @staticmethod
    def read(value: Any) -> object:
        """Return a float, also for a number that JSON holds without a fraction."""
        return float(value) if type(value) is int and abs(value) <= MAX_NUMBER else value

    def fit(self, value: float) -> float:
        """Return the number, or the nearer end of the range; the lower end for NaN."""
        return max(self.least, min(value, self.most)) if not math.isnan(value) else self.least


class Text(Bound):
    """Allow texts of a length, perhaps of certain characters only; ``meaning`` describes them in a refusal."""

    __slots__ = ("_is_any", "begin", "is_printable", "is_shown", "least", "meaning", "most", "of")

    def __init__(
        self,
        most: int = limits.MAX_TEXT,
        *,
        least: int = 0,
        of: str = "",
        begin: str = "",
        is_printable: bool = False,
        is_shown: bool = False,
        meaning: str = "",
    ) -> None:
        self.most, self.least, self.of, self.begin, self.meaning = most, least, of, begin, meaning
        self.is_printable, self.is_shown = is_printable, is_shown
        self._is_any = not (least or of or begin or is_printable)

    def wrong(self, value: object) -> str:
        """Name a text that is too long, has other characters, or can't be sent; or a value that is no text."""
        if type(value) is str and self._is_any and len(value) <= self.most and value.isascii():
            return ""
        if not isinstance(value, str):
            return f" is {shown(value)}"
        if len(value) > self.most:
            return f" has {len(value)} characters, above {self.most}"
        # A lone surrogate can't be encoded, so the peer that passes the message on would fail.
        if not value.isascii() and not _is_encodable(value):
            return f" is {shown(value)}, which is no text in UTF-8"
        if (
            len(value) < self.least
            # strip() leaves nothing if all characters are among those of `of`.
            or (self.of and value.strip(self.of))
            or (self.begin and not value.startswith(self.begin))
            or (self.is_printable and not value.isprintable())
        ):
            return f" is {shown(value)}, not {self.meaning}"
        return ""

    def fit(self, value: str) -> str:
        """Return the text with other characters replaced, cut if it is too long."""
        if not self.wrong(value):
            return value
        if self.of or self.is_printable:
            value = "".join(c if self._allows(c) else "-" for c in value[: self.most])
            return value.ljust(self.least, "-")
        # The text may have any length, so it is cut before it is encoded.
        value = value[: self.most + 1].encode("utf-8", "backslashreplace").decode("utf-8")
        if not value.startswith(self.begin):
            value = self.begin + value
        return value if len(value) <= self.most else f"{value[: self.most - 1]}…"

    def _allows(self, character: str) -> bool:
        return character in self.of if self.of else character.isprintable()


class OneOf(Bound):
    """Allow some members of an enumeration."""

    __slots__ = ("_by_value", "_kind", "members")

    def __init__(self, *members: enum.Enum) -> None:
        self.members = members
        self._kind = type(members[0])
        self._by_value = {member.value: member for member in members}

    def wrong(self, value: object) -> str:
        """Name a member of another enumeration, or one that is not allowed."""
        if type(value) is self._kind and value.value in self._by_value:
            return ""
        return self._refusal(value.value if isinstance(value, enum.Enum) else value)

    def read(self, value: Any) -> object:
        """Return the member that has this value."""
        member = self._by_value.get(value) if isinstance(value, str) else None
        if member is None:
            raise InvalidMessage("", self._refusal(value))
        return member

    @staticmethod
    def plain(value: Any) -> object:
        """Return a member's value."""
        return value.value

    def _refusal(self, value: object) -> str:
        return f" is {shown(value)}, not one of {', '.join(map(str, self._by_value))}"


class Maybe(Bound):
    """Allow what another bound allows, and None."""

    __slots__ = ("bound", "plain", "read")

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.plain = None if bound.plain is None else self._plain
        self.read = None if bound.read is None else self._read

    @property
    def is_shown(self) -> bool:  # type: ignore[override] # the inner bound's
        """Return what the inner bound says."""
        return self.bound.is_shown

    def wrong(self, value: object) -> str:
        """Return what the inner bound says; None is right."""
        return "" if value is None else self.bound.wrong(value)

    def fit(self, value: Any) -> object:
        """Return what the inner bound makes of the value; None stays."""
        return None if value is None else self.bound.fit(value)

    def _plain(self, value: object) -> object:
        return None if value is None else self.bound.plain(value)  # type: ignore[misc] # not set without one

    def _read(self, value: object) -> object:
        return None if value is None else self.bound.read(value)  # type: ignore[misc] # not set without one


class AtMost:
    """Bound the elements of a list, as the annotation of a tuple."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Many(Bound):
    """Allow a tuple of what another bound allows, up to a number of elements."""

    __slots__ = ("bound", "most", "plain")

    is_shown = False

    def __init__(self, bound: Bound, most: int) -> None:
        self.bound, self.most = bound, most
        self.plain = list if bound.plain is None else self._plain

    def wrong(self, value: object) -> str:
        """Name the first wrong element, or the number of elements if there are too many."""
        if not isinstance(value, tuple):
            return f" is {shown(value)}, not a tuple"
        if len(value) > self.most:
            return self._too_many(len(value))
        if not value or (isinstance(self.bound, Number) and self.bound.holds_all(value)):
            return ""
        for index, item in enumerate(value):
            if wrong := self.bound.wrong(item):
                return f"[{index}]{wrong}"
        return ""

    def read(self, value: Any) -> object:
        """Return the elements of a list."""
        if not isinstance(value, list):
            raise InvalidMessage("", f" is {shown(value)}, not a list")
        if len(value) > self.most:
            raise InvalidMessage("", self._too_many(len(value)))
        read, items = self.bound.read, []
        if read is None:
            # wrong() checks the elements together, later.
            return tuple(value)
        try:
            for item in value:
                items.append(read(item))
        except InvalidMessage as error:
            raise InvalidMessage("", f"[{len(items)}]{error.suffix}") from None
        return tuple(items)

    def fit(self, value: Iterable[Any]) -> object:
        """Return the first elements, each fitted by the inner bound."""
        return tuple(self.bound.fit(item) for item in tuple(value)[: self.most])

    def _plain(self, value: Iterable[object]) -> object:
        return [self.bound.plain(item) for item in value]  # type: ignore[misc] # not set without one

    def _too_many(self, count: int) -> str:
        return f" has {count} elements, above {self.most}"


def bound_of(hint: Any, nested: Callable[[type], Bound | None]) -> Bound:
    """Return the bound that an annotation names; ``nested`` returns the bound of a record class, else None."""
    metadata = getattr(hint, "__metadata__", None)
    if metadata is not None:
        if not isinstance(metadata[0], AtMost):
            return typing.cast(Bound, metadata[0])
        return Many(bound_of(typing.get_args(hint.__origin__)[0], nested), metadata[0].count)
    # `Annotated[...] | None` is a typing.Union, `int | None` a types.UnionType.
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return Maybe(bound_of(typing.get_args(hint)[0], nested))
    if typing.get_origin(hint) is tuple:
        return Many(bound_of(typing.get_args(hint)[0], nested), limits.MAX_ITEMS)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if issubclass(hint, enum.Enum):
        return OneOf(*hint)
    own = nested(hint)
    if own is None:
        raise TypeError(f"no field of a message is a {hint}")
    return own


def shown(value: object) -> str:
    """Return a wrong value as a refusal repeats it."""
    if isinstance(value, (str, bytes)):
        # repr() of a long text may take long.
        value = value[: SHOWN_VALUE + 1]
    text = repr(value)
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}… ({type(value).__name__})"


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_PLAIN: dict[object, Bound] = {int: Number(), float: Seconds(), str: Text(), bool: Bound()}

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))

Count = Annotated[int, Number(0)]
"""A number of things, or an offset in a stream."""

Serial = Annotated[int, Number(0, MAX_SERIAL)]
"""The number of a stop, a session or a generation."""

Line = Annotated[int, Number(0, MAX_RANK)]
"""The number of a line; 0 where there is none."""

RankNumber = Annotated[int, Number(0, MAX_RANK)]

Pid = Annotated[int, Number(0, MAX_PID)]
"""A process id; 0 if it is unknown, as for a stock session."""

Age = Annotated[float, Seconds(0.0, MAX_AGE)]
"""Seconds since something began."""

Path = Annotated[str, Text(limits.MAX_PATH, is_shown=True)]
"""A path or a function's name. It may contain any character, so the code that shows it escapes it."""

Name = Annotated[str, Text(200, least=1, of=_LETTERS + "._-", is_shown=True, meaning="1 to 200 of A-Z a-z 0-9 . _ -")]
"""A part of an address."""

Key = Annotated[
    str,
    Text(
        1000,
        least=1,
        of=_VISIBLE,
        is_shown=True,
        meaning="1 to 1000 visible ASCII characters",
    ),
]
"""The identity of a rank."""

Word = Annotated[
    str, Text(64, least=1, of=_LETTERS + "._+-", is_shown=True, meaning="a word of 1 to 64 of A-Z a-z 0-9 . _ + -")
]
"""A version, an engine, or a reason for programs."""

FrameName = Annotated[str, Text(limits.MAX_FRAME_NAME, is_shown=True)]
"""A frame of a stack as people name it: a function, or a number; empty for the usual one."""

PersonName = Annotated[
    str, Text(200, least=1, is_printable=True, is_shown=True, meaning="1 to 200 printable characters")
]
"""The user of a terminal, ``user@host``, as other users see it beside a rank."""

Sentence = Annotated[str, Text(is_shown=True)]
"""A text for people that one of the three roles has written itself, so that a log may show it."""
