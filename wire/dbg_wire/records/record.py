"""Records: the structs that messages consist of, the bounds of their fields, and records of a program's values.

A record is frozen and its fields are keyword-only. msgspec reads, checks and writes records in C. The bounds of fields
are checked when a record is read, not when it is created. So :func:`clamp` builds a record from a program's values, and
:func:`checked` rejects a record that a peer would reject. A bound is a msgspec constraint in the annotation of a field.
A log shows a text only if its bound has ``is_shown``: names and paths, but not typed text or values of a program.
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
"""Largest integer that every JSON implementation keeps exactly. It is also the largest offset in a stream of output,
which reaches it after a thousand years at 256 KiB/s."""

MAX_SERIAL = 2**32 - 1
"""Largest session, stop or generation number; a binary frame has 32 bits for each."""

MAX_RANK = 10**9
"""Largest rank, world size and line number. A larger number is a mistake, and would only make the columns of lists
wider."""

MAX_AGE = 10 * 365 * 86400.0
"""Maximum age of a stop, in seconds: ten years, because no machine is up for longer."""

MAX_PID = 2**31
"""Largest process id that Linux may assign."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class InvalidMessage(ValueError):
    """Raised for an invalid value; names the message and the field. ``suffix`` is the text after the message's name."""

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
    start: str = "",
    is_shown: bool = False,
) -> msgspec.Meta:
    """Allow texts of ``least`` to ``most`` characters from the set ``of`` that start with ``start``."""
    extra: dict[str, Any] = {"is_shown": is_shown, "of": of, "start": start}
    pattern = None
    if of or start:
        # The pattern is kept short, because error messages show it. It ends with `\Z`, because `$` would also match
        # before a final line feed.
        allowed = re.escape(of).replace(_LETTERS, "A-Za-z0-9")
        pattern = rf"^{re.escape(start)}" + (rf"[{allowed}]*\Z" if of else "")
    return msgspec.Meta(min_length=least or None, max_length=most, pattern=pattern, extra=extra)


def elements(count: int) -> msgspec.Meta:
    """Allow tuples of at most ``count`` elements."""
    return msgspec.Meta(max_length=count)


_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))

Integer = Annotated[int, integers()]

Real = Annotated[float, reals()]

FreeText = Annotated[str, characters()]
"""A text that a person typed, or a value of a program; a log shows only its length."""

Items = elements(limits.MAX_ITEMS)
"""Default bound of a list."""

Integers = Annotated[tuple[Integer, ...], Items]

Texts = Annotated[tuple[FreeText, ...], Items]

Count = Annotated[int, integers(0)]
"""A number of items, or an offset in a stream."""

Serial = Annotated[int, integers(0, MAX_SERIAL)]
"""Number of a stop, a session or a generation."""

Line = Annotated[int, integers(0, MAX_RANK)]
"""Line number; 0 if there is no line."""

RankNumber = Annotated[int, integers(0, MAX_RANK)]

Pid = Annotated[int, integers(0, MAX_PID)]
"""A process id; 0 if it is unknown, as for a stock session."""

Age = Annotated[float, reals(0.0, MAX_AGE)]
"""Seconds since a state began."""

Path = Annotated[str, characters(limits.MAX_PATH, is_shown=True)]
"""A path or a function's name. It may contain any character, so code that displays it must escape it."""

Name = Annotated[str, characters(200, least=1, of=_LETTERS + "._-", is_shown=True)]
"""Part of an address."""

Key = Annotated[str, characters(1000, least=1, of=_VISIBLE, is_shown=True)]
"""Identity of a rank."""

Word = Annotated[str, characters(64, least=1, of=_LETTERS + "._+-", is_shown=True)]
"""A version, an engine, or a machine-readable reason."""

FrameName = Annotated[str, characters(limits.MAX_FRAME_NAME, is_shown=True)]
"""Frame of a stack as a user names it: a function or a number; empty for the default frame."""

PersonName = Annotated[str, characters(200, least=1, is_shown=True)]
"""User of a terminal, ``user@host``, as other users see it next to a rank: printable characters."""

Sentence = Annotated[str, characters(is_shown=True)]
"""A text for people, written by the agent, the broker or the client, and not by a user or program. A log may show
it."""


# ----------------------------------------------------------------------------------------------------- records

_P = ParamSpec("_P")
_Known = TypeVar("_Known", bound="Record")

MAX_REFUSAL = 300
"""Maximum number of characters of an error text, because msgspec's errors quote patterns and whole invalid values."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class RecordType(msgspec.StructMeta):
    """Metaclass of records: they are frozen, and all their fields are keyword-only."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordType:
        """Create one record class."""
        # A frozen object can't be part of a reference cycle, so the garbage collector needn't track it.
        return super().__new__(mcs, name, bases, namespace, frozen=True, kw_only=True, gc=False, **options)


class Record(msgspec.Struct, metaclass=RecordType):
    """Base of all records: frozen, and equal to a record of the same class with equal fields."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy of this record with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Row(Record, tag_field="row"):
    """Base of the rows of an answer; the tag of the subclass identifies the kind of row."""


class Inquiry(Record, tag_field="asks"):
    """Base of the parameters that a question has besides its text; the tag of the subclass identifies the kind."""


_encoder = msgspec.json.Encoder()


@cache
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder for a record class. It is created at the first call, which takes a little longer."""
    return msgspec.json.Decoder(kind)


def encode_record(record: Record) -> str:
    """Return a record as a JSON text. Raise UnicodeEncodeError for a lone surrogate."""
    return _encoder.encode(record).decode()


def size_of(record: Record) -> int:
    """Return the size of a record in a message, in bytes. Raise UnicodeEncodeError for a lone surrogate."""
    return len(_encoder.encode(record))


def within_bytes(records: Iterable[_Known], most: int) -> tuple[list[_Known], int]:
    """Return the records that fit into ``most`` bytes of a message, in order, and the number of omitted records."""
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
    """Group the rows of an answer by class. Rows of classes outside the union are omitted."""
    found: dict[type, list[Any]] = {kind: [] for kind in typing.get_args(union)}
    for row in rows:
        if type(row) in found:
            found[type(row)].append(row)
    return {kind: tuple(same) for kind, same in found.items()}


def length_of(value: object) -> int:
    """Return the total length of all strings and bytes in a record."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Record):
        return sum(length_of(getattr(value, name)) for name in value.__struct_fields__)
    return sum(map(length_of, value)) if isinstance(value, tuple) else 0


def plain(record: Record) -> dict[str, Any]:
    """Return a record as a dict of plain values, as in its JSON form."""
    document: dict[str, Any] = msgspec.to_builtins(record)
    return document


def decode_record(kind: Any, text: str | bytes) -> Any:
    """Decode a record of a class or a union of classes from a JSON text. Unknown fields are ignored.

    Raise InvalidMessage.
    """
    try:
        return decoder_of(kind).decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InvalidMessage("row", refusal(error)) from None


def document_of(text: str | bytes) -> Any:
    """Return the value of a JSON text, or None if it is not valid JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def checked(record: _Known) -> _Known:
    """Return a record as a peer would read it. Raise InvalidMessage with the first invalid field."""
    kind = type(record)
    try:
        return typing.cast(_Known, decoder_of(kind).decode(_encoder.encode(record)))
    except (msgspec.DecodeError, UnicodeError, OverflowError, TypeError) as error:
        raise InvalidMessage(name_of(kind), refusal(error)) from None


def name_of(kind: type[Record]) -> str:
    """Return the name of a record in error messages, or the type of a message: ``register`` for ``Register``."""
    return str(kind.__struct_config__.tag or kind.__name__.lower())


def refusal(error: Exception) -> str:
    """Return msgspec's error message about a record, as the text that follows the record's name."""
    text = str(error)
    return f": {text}" if len(text) <= MAX_REFUSAL else f": {text[:MAX_REFUSAL]}…"


# ------------------------------------------------------------------------------------------------- a program's values


def clamp(make: Callable[_P, _Known], *args: _P.args, **values: _P.kwargs) -> _Known:
    """Build a record from values of the debugged program, within the bounds of its fields.

    Strings that are too long are truncated and numbers out of range are clamped. So an odd thread name or path can't
    make the debugger fail.
    """
    try:
        return checked(make(*args, **values))
    except InvalidMessage:
        hints = hints_of(typing.cast(type[Record], make))
        limit_rows = {name: fit(hints[name], value) for name, value in values.items()}
        return make(*args, **limit_rows)


@cache
def hints_of(kind: type[Record]) -> dict[str, Any]:
    """Return the annotations of a record's fields, in order."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}


def inner_of(hint: Any) -> Any:
    """Return an annotation ``X | None`` as ``X``, and any other annotation unchanged."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(one for one in typing.get_args(hint) if one is not type(None))
    return hint


def bound_of(hint: Any) -> msgspec.Meta | None:
    """Return the bound in an annotation, or None."""
    return next(iter(getattr(inner_of(hint), "__metadata__", ())), None)


def fit(hint: Any, value: Any) -> Any:
    """Return the value, or the nearest value that the annotation of its field allows."""
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
        # NaN becomes the smallest number that is allowed.
        return least if math.isnan(value) else max(least, min(value, most))
    return value


def _fit_text(bound: msgspec.Meta, value: str) -> str:
    """Return the text with invalid characters replaced, truncated if it is too long."""
    extra, most = bound.extra or {}, bound.max_length or 0
    if of := extra["of"]:
        value = "".join(c if c in of else "-" for c in value[:most])
        return value.ljust(bound.min_length or 0, "-")
    # The text may be very long, so it is truncated before it is encoded.
    value = value[: most + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    if not value.startswith(extra["start"]):
        value = extra["start"] + value
    value = value.ljust(bound.min_length or 0, "-")
    return value if len(value) <= most else f"{value[: most - 1]}…"
