"""How a message is written in a log: its name and its fields in one line, without private contents.

Numbers, names, addresses and paths are shown. Of a typed text, a program's values and output, and any other text only
the length is shown. No message holds a token.
"""

from __future__ import annotations

import enum
from typing import Any

from dbg_wire.codec import type_name
from dbg_wire.errors import printable
from dbg_wire.messages import Message
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import Record, bound_of, hints_of

MAX_LINE = 400
"""Characters of one message; a registration, which has the most fields, needs 300."""

MAX_SHOWN = 80
"""Characters of one text that is shown."""


class LogForm:
    """A message that becomes a line only if a log writes it, as making the line costs time."""

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __str__(self) -> str:
        return log_form(self._message)


def log_form(message: Message) -> str:
    """Return a message as a line of a log, with control characters escaped."""
    fields = _fields(message)
    return printable(f"{type_name(type(message))} {fields}" if fields else type_name(type(message)), MAX_LINE)


def _fields(record: Record) -> str:
    """Return the fields that differ from their defaults."""
    kind = type(record)
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    default_of = dict(zip(reversed(names), reversed(defaults), strict=False))
    values = ((name, getattr(record, name)) for name in names)
    shown = (
        f"{name}={_shown(hints_of(kind)[name], value)}"
        for name, value in values
        if name not in default_of or value != default_of[name]
    )
    return " ".join(shown)


def _shown(hint: Any, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Place):
        return f"{_cut(value.file)}:{value.line}"
    if isinstance(value, Record):
        return f"({_fields(value)})"
    if isinstance(value, tuple):
        return f"<{len(value)} elements>"
    if isinstance(value, enum.Enum):
        return _cut(str(value.value))
    if isinstance(value, str):
        bound = bound_of(hint)
        is_shown = bound is not None and bound.extra is not None and bound.extra["is_shown"]
        return _cut(value) if is_shown else f"<{len(value)} characters>"
    return _cut(str(value))


def _cut(text: str) -> str:
    return printable(text, MAX_SHOWN)
