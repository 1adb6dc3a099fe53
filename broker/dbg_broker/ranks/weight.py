"""How much memory keeping a message costs, which its length on the wire doesn't tell. Pure."""

from __future__ import annotations

from sys import getsizeof

from dbg_wire.records.ranks import Place
from dbg_wire.records.record import Record, Row, size_of

_PLACE = 56 + 28
"""Bytes of a place beside its two texts: its own, and those of its number."""

_OF_ROW = 5
"""Bytes in memory for one in the message, of a row that holds nothing but short texts. Most rows need half of that, but
to look at each of their fields would take long: a message may hold some ten thousand."""


def weight(*values: object) -> int:
    """Return about how many bytes messages and parts of them occupy; what two of them share counts twice."""
    total = 0
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if type(value) is Place:
            # A message may hold four thousand of them.
            total += _PLACE + getsizeof(value.file) + getsizeof(value.function)
            continue
        if isinstance(value, Row):
            total += _OF_ROW * size_of(value)
            continue
        total += getsizeof(value)
        if isinstance(value, tuple):
            waiting.extend(value)
        elif isinstance(value, Record):
            waiting.extend([getattr(value, name) for name in value.__struct_fields__])
    return total
