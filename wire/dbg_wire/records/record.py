"""Records: the structs that messages are made of, and how a program's values become one that a peer takes.

A record is frozen and its fields are given by name. msgspec reads, checks and writes records in C. The bounds of the
fields are checked where a record is read, not where it is made: :func:`fitted` makes one of a program's values, and
:func:`checked` refuses one that no peer would take.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ParamSpec, Self, TypeVar, dataclass_transform

import msgspec

from dbg_wire.records.bounds import InvalidMessage

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
