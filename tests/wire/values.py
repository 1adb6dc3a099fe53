"""Strategies for what the fields of messages may hold, and for what a program may want to put there."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dbg_wire.bounds import Bound, Many, Maybe, Number, OneOf, Seconds, Text
from dbg_wire.messages import MESSAGES, Complete, Message, Register, Testimony
from dbg_wire.records import Nested, Record, fields_of

MAX_SAMPLE = 30
"""Most characters of a text that is tried; texts at their bound have tests of their own."""

anything = st.text(st.characters(), max_size=MAX_SAMPLE)
"""Any text that Python can hold, lone surrogates included."""


def allowed(bound: Bound) -> st.SearchStrategy[Any]:
    """Return values that a field with this bound may hold."""
    if isinstance(bound, Maybe):
        return st.none() | allowed(bound.bound)
    if isinstance(bound, Many):
        return st.lists(allowed(bound.bound), max_size=min(3, bound.most)).map(tuple)
    if isinstance(bound, Nested):
        return records(bound.record)
    if isinstance(bound, OneOf):
        return st.sampled_from(list(bound.members))
    if isinstance(bound, Number):
        return st.integers(bound.least, bound.most)
    if isinstance(bound, Seconds):
        return st.floats(bound.least, bound.most, allow_nan=False)
    if isinstance(bound, Text):
        return _texts(bound)
    return st.booleans()


def _texts(bound: Text) -> st.SearchStrategy[str]:
    alphabet: Any = bound.of or st.characters(exclude_categories=["C", "Z"] if bound.is_printable else ["Cs"])
    rest = st.text(alphabet, min_size=bound.least, max_size=min(MAX_SAMPLE, bound.most - len(bound.begin)))
    return rest.map(lambda text: bound.begin + text)


def records(kind: type[Record]) -> st.SearchStrategy[Any]:
    """Return records of a class."""
    return st.fixed_dictionaries({field.name: allowed(field.bound) for field in fields_of(kind)}).map(
        lambda values: kind(**_agreeing(kind, values))
    )


def _agreeing(kind: type[Record], values: dict[str, Any]) -> dict[str, Any]:
    """Return values whose fields don't contradict each other."""
    if kind is Complete:
        size = len(values["line"])
        begin, end = sorted((values["begin"] % (size + 1), values["end"] % (size + 1)))
        return {**values, "begin": begin, "end": end}
    registration = values.get("registration")
    if kind is Testimony and isinstance(registration, Register):
        return {**values, "key": registration.key}
    return values


def wished(bound: Bound) -> st.SearchStrategy[Any]:
    """Return values of the right type that a program may come up with, within the bound or not."""
    if isinstance(bound, Maybe):
        return st.none() | wished(bound.bound)
    if isinstance(bound, Many):
        return st.lists(wished(bound.bound), max_size=3).map(tuple)
    if isinstance(bound, Number):
        return st.integers()
    if isinstance(bound, Seconds):
        return st.floats()
    if isinstance(bound, Text):
        return anything | st.integers(1, 70_000).map(lambda size: "\udcff" + "é" * size)
    return allowed(bound)


messages: st.SearchStrategy[Message] = st.one_of([records(message) for message in MESSAGES])
