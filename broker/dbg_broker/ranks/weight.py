"""How much memory keeping a message costs, which its length on the wire doesn't tell. Pure."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from sys import getsizeof


def weight(*values: object) -> int:
    """Return about how many bytes messages and parts of them occupy; what two of them share counts twice."""
    total = 0
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        total += getsizeof(value)
        if isinstance(value, tuple):
            waiting.extend(value)
        elif is_dataclass(value):
            waiting.extend(getattr(value, part.name) for part in fields(value))
    return total
