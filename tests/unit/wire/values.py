"""Strategies for what the fields of messages may hold, and for what a program may want to put there."""

from __future__ import annotations

import enum
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st

from dbg_wire.messages import (
    KINDS_OF_AGENTS,
    MESSAGES,
    REPORTED_STATES,
    Answer,
    AnswerBody,
    Complete,
    Greet,
    GuardReport,
    Message,
    RankReport,
    body_of,
)
from dbg_wire.messages.declared import AnyInquiry, AnyRow
from dbg_wire.records.inspection import CommandLine
from dbg_wire.records.record import Record, bound_of, hints_of, inner_of

MAX_SAMPLE = 30
"""Most characters of a text that is tried; texts at their bound have tests of their own."""

anything = st.text(st.characters(), max_size=MAX_SAMPLE)
"""Any text that Python can hold, lone surrogates included."""


def base_of(hint: Any) -> Any:
    """Return the type that an annotation names, without its bound and its ``None``."""
    inner = inner_of(hint)
    return typing.get_args(inner)[0] if typing.get_origin(inner) is typing.Annotated else inner


def kinds() -> list[type[Record]]:
    """Return every class of record that a field of a message leads to, and the messages."""
    found: dict[type[Record], None] = {}
    waiting: list[Any] = [*MESSAGES, AnswerBody]
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        found[kind] = None
        for hint in hints_of(kind).values():
            base = base_of(hint)
            inner = base.__args__[0] if hasattr(base, "__args__") else base
            if isinstance(inner, type) and issubclass(inner, Record):
                waiting.append(inner)
    return list(found)


def is_optional(hint: Any) -> bool:
    """Tell whether a field may hold None."""
    return inner_of(hint) is not hint


def _allowed(hint: Any) -> st.SearchStrategy[Any]:
    """Return values that a field with this annotation may hold."""
    if hint == AnyRow or hint == AnyInquiry | None:
        return st.one_of([st.none() if one is type(None) else _allowed(one) for one in typing.get_args(hint)])
    base, bound = base_of(hint), bound_of(hint)
    if is_optional(hint):
        return st.none() | _allowed(inner_of(hint))
    if typing.get_origin(base) is tuple:
        return st.lists(_allowed(typing.get_args(base)[0]), max_size=3).map(tuple)
    if base is msgspec.Raw:
        return records(AnswerBody).map(body_of)
    if issubclass(base, Record):
        return records(base)
    if issubclass(base, enum.Enum):
        return st.sampled_from(list(base))
    if base is bool:
        return st.booleans()
    if base is bytes:
        return st.binary(max_size=MAX_SAMPLE)
    assert bound is not None, hint
    if base is int:
        return st.integers(int(bound.ge or 0), int(bound.le or 0))
    if base is float:
        return st.floats(bound.ge, bound.le, allow_nan=False)
    return _texts(bound)


def _texts(bound: Any) -> st.SearchStrategy[str]:
    start = bound.extra["start"]
    alphabet: Any = bound.extra["of"] or st.characters(exclude_categories=["Cs"])
    rest = st.text(alphabet, min_size=bound.min_length or 0, max_size=min(MAX_SAMPLE, bound.max_length - len(start)))
    return rest.map(lambda text: start + text)


def records(kind: type[Record]) -> st.SearchStrategy[Any]:
    """Return records of a class."""
    fields = {name: _allowed(hint) for name, hint in hints_of(kind).items()}
    if kind is RankReport:
        fields["state"] = st.sampled_from(sorted(REPORTED_STATES))
    if kind is Answer:
        fields["kind"] = st.sampled_from(sorted(KINDS_OF_AGENTS))
    if kind is Greet:
        fields["name"] = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=MAX_SAMPLE)
    if kind is CommandLine:
        fields["arguments"] = st.lists(st.binary(min_size=1).filter(lambda one: 0 not in one), min_size=1).map(tuple)
    return st.fixed_dictionaries(fields).map(lambda values: kind(**_agreeing(kind, values)))


def _agreeing(kind: type[Record], values: dict[str, Any]) -> dict[str, Any]:
    """Return values whose fields don't contradict each other."""
    if kind is Complete:
        size = len(values["line"])
        start, end = sorted((values["start"] % (size + 1), values["end"] % (size + 1)))
        return {**values, "start": start, "end": end}
    if kind is GuardReport and values["registration"] is not None:
        return {**values, "key": values["registration"].identity.key}
    return values


def any_value(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of the right type that a program may come up with, within the bound or not."""
    if hint == AnyRow or hint == AnyInquiry | None:
        return _allowed(hint)
    base = base_of(hint)
    if is_optional(hint):
        return st.none() | any_value(inner_of(hint))
    if base is msgspec.Raw:
        return _allowed(hint)
    if typing.get_origin(base) is tuple:
        return st.lists(any_value(typing.get_args(base)[0]), max_size=3).map(tuple)
    if base is int:
        return st.integers()
    if base is float:
        return st.floats()
    if base is str:
        return anything | st.integers(1, 70_000).map(lambda size: "\udcff" + "é" * size)
    return _allowed(hint)


messages: st.SearchStrategy[Message] = st.one_of([records(message) for message in MESSAGES])
