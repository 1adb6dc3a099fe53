"""Messages of which only a part has come: how much of them is kept, and for how long. Pure; time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from dbg_wire import limits

MESSAGE_SECONDS = 60.0
"""Seconds that one message may take to come: a mebibyte, the largest there is, takes 33 at 256 kbit/s."""

MAX_UNFINISHED_BYTES = 64 * limits.MIB
"""Bytes of all these messages together: a thousand ranks that answer with a screen at the same time send 10 MiB."""


class _Begun(NamedTuple):
    at: float
    size: int


class Unfinished:
    """The bytes kept of each connection, in the order in which the messages began."""

    def __init__(self) -> None:
        self._begun: OrderedDict[int, _Begun] = OrderedDict()
        self.size = 0

    def note(self, number: int, size: int, now: float, *, is_new: bool) -> None:
        """Note what is kept for a connection now, 0 for nothing; ``is_new`` if a message was completed since."""
        begun = self._begun.get(number)
        if is_new or begun is None or not size:
            self.drop(number)
            begun = _Begun(now, 0)
        if size:
            self._begun[number] = _Begun(begun.at, size)
            self.size += size - begun.size

    def drop(self, number: int) -> None:
        """Forget a connection; an unknown number is no error."""
        begun = self._begun.pop(number, None)
        self.size -= begun.size if begun is not None else 0

    def overdue(self, now: float) -> list[int]:
        """Return the connections whose messages take too long."""
        numbers = []
        for number, begun in self._begun.items():
            if now - begun.at < MESSAGE_SECONDS:
                break
            numbers.append(number)
        return numbers

    def heaviest(self) -> int | None:
        """Return the connection that keeps most if all of them together keep too much."""
        if self.size <= MAX_UNFINISHED_BYTES:
            return None
        return max(self._begun, key=lambda number: self._begun[number].size)
