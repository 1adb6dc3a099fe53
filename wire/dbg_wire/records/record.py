"""Records: the structs that messages are made of, the bounds of their fields, and how a program's values become one.

A record is frozen and its fields are given by name. msgspec reads, checks and writes records in C. The bounds of the
fields are checked where a record is read, not where it is made: :func:`fitted` makes one of a program's values, and
:func:`checked` refuses one that no peer would take. A bound is a constraint of msgspec, as the annotation of a field. A
log may show a text only if its bound says so: names and paths, but nothing that a person typed or a program holds.
"""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, ParamSpec, Self, TypeVar, dataclass_transform

import msgspec

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


def integers(least: int = -MAX_NUMBER, most: int = MAX_NUMBER) -> msgspec.Meta:
    """Allow integers of a range."""
    return msgspec.Meta(ge=least, le=most)


def reals(least: float = -MAX_NUMBER, most: float = MAX_NUMBER) -> msgspec.Meta:
    """Allow numbers of a range, with a fraction or without."""
    return msgspec.Meta(ge=least, le=most)


def characters(
    most: int = limits.MAX_TEXT,
    *,
    least: int = 0,
    of: str = "",
    begin: str = "",
    is_shown: bool = False,
) -> msgspec.Meta:
    """Allow texts of ``least`` to ``most`` characters, all of them among ``of``, that begin with ``begin``."""
    extra: dict[str, Any] = {"is_shown": is_shown, "of": of, "begin": begin}
    pattern = None
    if of or begin:
        # A refusal shows the pattern. `$` would also match before a line feed at the end.
        allowed = re.escape(of).replace(_LETTERS, "A-Za-z0-9")
        pattern = rf"^{re.escape(begin)}" + (rf"[{allowed}]*\Z" if of else "")
    return msgspec.Meta(min_length=least or None, max_length=most, pattern=pattern, extra=extra)


def elements(count: int) -> msgspec.Meta:
    """Allow tuples of a number of elements."""
    return msgspec.Meta(max_length=count)


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


# ----------------------------------------------------------------------------------------------------- records

_P = ParamSpec("_P")
_Known = TypeVar("_Known", bound="Record")

MAX_REFUSAL = 300
"""Characters of a refusal: msgspec repeats a pattern, and a wrong choice of any length."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class RecordType(msgspec.StructMeta):
    """The class of record classes: all of them are frozen, and all their fields are given by name."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordType:
        """Make one class."""
        # What is frozen when it is made can't be part of a cycle, so that the garbage collector needn't look at it.
        return super().__new__(mcs, name, bases, namespace, frozen=True, kw_only=True, gc=False, **options)


class Record(msgspec.Struct, metaclass=RecordType):
    """A frozen object that is equal to a record of its class with equal fields."""

    def replace(self, **changes: Any) -> Self:
        """Return this record with other values in some fields."""
        return msgspec.structs.replace(self, **changes)


class Row(Record, tag_field="row"):
    """A record that an answer has several kinds of; the subclass's tag says which it is."""


class Inquiry(Record, tag_field="asks"):
    """What a question asks beside its text; the subclass's tag says which kind it is."""


_encoder = msgspec.json.Encoder()


@cache
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return what reads JSON texts of a record's class; it is made at the first use, which takes a moment."""
    return msgspec.json.Decoder(kind)


def encode_record(record: Record) -> str:
    """Return a record as a JSON text. Raise UnicodeEncodeError for a lone surrogate."""
    return _encoder.encode(record).decode()


def size_of(record: Record) -> int:
    """Return the bytes of a record in a message. Raise UnicodeEncodeError for a lone surrogate."""
    return len(_encoder.encode(record))


def within_bytes(records: Iterable[_Known], most: int) -> tuple[list[_Known], int]:
    """Return the records that fit into so many bytes of a message, in their order, and how many were left out."""
    kept: list[_Known] = []
    left_out = 0
    for record in records:
        size = size_of(record) + 1
        if size > most:
            left_out += 1
        else:
            most -= size
            kept.append(record)
    return kept, left_out


def rows_by_kind(rows: Iterable[object], union: Any) -> dict[type[Record], tuple[Any, ...]]:
    """Return those rows of an answer that are of the classes of a union, by their class."""
    found: dict[type, list[Any]] = {kind: [] for kind in typing.get_args(union)}
    for row in rows:
        if type(row) in found:
            found[type(row)].append(row)
    return {kind: tuple(same) for kind, same in found.items()}


def length_of(value: object) -> int:
    """Return how many characters and bytes the texts of a record have together."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Record):
        return sum(length_of(getattr(value, name)) for name in value.__struct_fields__)
    return sum(map(length_of, value)) if isinstance(value, tuple) else 0


def plain(record: Record) -> dict[str, Any]:
    """Return a record as the object that JSON would have."""
    document: dict[str, Any] = msgspec.to_builtins(record)
    return document


def decode_record(kind: Any, text: str | bytes) -> Any:
    """Return the record of a class, or of one of several, in a JSON text; unknown fields are ignored.

    Raise InvalidMessage.
    """
    try:
        return decoder_of(kind).decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InvalidMessage("row", refusal(error)) from None


def document_of(text: str | bytes) -> Any:
    """Return what a JSON text holds, None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def checked(record: _Known) -> _Known:
    """Return a record as a peer reads it. Raise InvalidMessage, which names the first wrong field."""
    kind = type(record)
    try:
        return typing.cast(_Known, decoder_of(kind).decode(_encoder.encode(record)))
    except (msgspec.DecodeError, UnicodeError, OverflowError, TypeError) as error:
        raise InvalidMessage(name_of(kind), refusal(error)) from None


def name_of(kind: type[Record]) -> str:
    """Return a record's name in refusals, and a message's on the wire: ``register`` for ``Register``."""
    return kind.__name__.lower()


def refusal(error: Exception) -> str:
    """Return what is wrong with a record, in msgspec's words, as the text after its name."""
    text = str(error)
    return f": {text}" if len(text) <= MAX_REFUSAL else f": {text[:MAX_REFUSAL]}…"


# ------------------------------------------------------------------------------------------------- a program's values


def fitted(make: Callable[_P, _Known], *args: _P.args, **values: _P.kwargs) -> _Known:
    """Return a record of a program's values: a text that is too long is cut, a number out of its range is bounded.

    A debugger must not fail for the name of a thread or the path of a file.
    """
    try:
        return checked(make(*args, **values))
    except InvalidMessage:
        hints = hints_of(typing.cast(type[Record], make))
        fitting = {name: fit(hints[name], value) for name, value in values.items()}
        return make(*args, **fitting)


@cache
def hints_of(kind: type[Record]) -> dict[str, Any]:
    """Return the annotations of a record's fields, in their order."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}


def inner_of(hint: Any) -> Any:
    """Return the annotation without its ``None``."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(one for one in typing.get_args(hint) if one is not type(None))
    return hint


def bound_of(hint: Any) -> msgspec.Meta | None:
    """Return the bound that an annotation names, if it does."""
    return next(iter(getattr(inner_of(hint), "__metadata__", ())), None)


def fit(hint: Any, value: Any) -> Any:
    """Return the value, or the nearest one that the annotation of its field allows."""
    if value is None:
        return None
    bound = bound_of(hint)
    if isinstance(value, tuple):
        item = typing.get_args(typing.get_args(inner_of(hint))[0])[0]
        return tuple(fit(item, one) for one in value[: bound.max_length if bound else None])
    if isinstance(value, str) and bound is not None and type(value) is str:
        return _fit_text(bound, value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and bound is not None:
        least, most = typing.cast(float, bound.ge), typing.cast(float, bound.le)
        # The lower end stands for NaN.
        return least if math.isnan(value) else max(least, min(value, most))
    return value


def _fit_text(bound: msgspec.Meta, value: str) -> str:
    """Return the text with other characters replaced, cut if it is too long."""
    extra, most = bound.extra or {}, bound.max_length or 0
    if of := extra["of"]:
        value = "".join(c if c in of else "-" for c in value[:most])
        return value.ljust(bound.min_length or 0, "-")
    # The text may have any length, so it is cut before it is encoded.
    value = value[: most + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    if not value.startswith(extra["begin"]):
        value = extra["begin"] + value
    value = value.ljust(bound.min_length or 0, "-")
    return value if len(value) <= most else f"{value[: most - 1]}…"
