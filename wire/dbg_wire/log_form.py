"""How a message is written in a log: its name and its fields in one line, without private contents.

Numbers, names, addresses and paths are shown. Of a typed text, a program's values and output, and any other text only
the length is shown. No message holds a token.
"""

from __future__ import annotations

from .bounds import Bound, Many, Maybe
from .codec import type_name
from .errors import printable
from .messages import Message
from .ranks import Place
from .records import Record, fields_of

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
    shown = []
    for name, bound, default in fields_of(type(record)):
        value = getattr(record, name)
        if value != default:
            shown.append(f"{name}={_shown(bound, value)}")
    return " ".join(shown)


def _shown(bound: Bound, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(bound, Maybe):
        bound = bound.bound
    if isinstance(value, Place):
        return f"{_cut(value.file)}:{value.line}"
    if isinstance(value, Record):
        return f"({_fields(value)})"
    if isinstance(bound, Many) and isinstance(value, tuple):
        return f"<{len(value)} elements>"
    if isinstance(value, str) and bound.plain is None:
        return _cut(value) if bound.is_shown else f"<{len(value)} characters>"
    return _cut(str(value if bound.plain is None else bound.plain(value)))


def _cut(text: str) -> str:
    return printable(text, MAX_SHOWN)
