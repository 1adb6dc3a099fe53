"""Retransmission buffer of typed keys: no key is lost or applied twice. Pure.

Every byte has an offset that counts the bytes of one driver's generation. The rank settles bytes in order: it applies
or discards them. If a connection breaks, unsettled bytes are sent again with the same offsets, and the rank ignores
bytes that it has received before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from dbg_wire.limits import MAX_INPUT_PENDING


@dataclass(frozen=True, slots=True)
class PendingInput:
    """Keys with the stop and session that they were typed for; ``session`` is None until a debugger is open."""

    stop: int
    session: int | None
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset after the last byte of these keys."""
        return self.offset + len(self.data)


class UnacknowledgedInput:
    """Buffer of at most MAX_INPUT_PENDING bytes of keys of one generation that the rank has not settled."""

    def __init__(self) -> None:
        self.generation: int | None = None
        self._next = 0
        self._typed: deque[PendingInput] = deque()

    @property
    def unsettled(self) -> tuple[PendingInput, ...]:
        """Keys that the rank has not settled, oldest first."""
        return tuple(self._typed)

    def start(self, generation: int | None, settled: int) -> bytes:
        """Begin a generation after ``settled`` settled bytes, and return the unsettled keys of the former generation.

        ``generation`` is None if this terminal does not have the keyboard.
        """
        left = self.abandon()
        self.generation = generation
        self._next = settled
        return left

    def add(self, data: bytes, stop: int, session: int | None) -> PendingInput | None:
        """Keep keys and return them with their offset, or None if the buffer is full."""
        waiting = sum(len(typed.data) for typed in self._typed)
        if waiting + len(data) > MAX_INPUT_PENDING:
            return None
        typed = PendingInput(stop, session, self._next, data)
        self._typed.append(typed)
        self._next = typed.end
        return typed

    def open_session(self, stop: int, session: int) -> tuple[PendingInput, ...]:
        """Assign the session's number to the keys that waited for the stop's debugger; return these keys."""
        opened = tuple(replace(t, session=session) for t in self._typed if t.session is None and t.stop == stop)
        by_offset = {typed.offset: typed for typed in opened}
        self._typed = deque(by_offset.get(typed.offset, typed) for typed in self._typed)
        return opened

    def acknowledge(self, generation: int, offset: int) -> None:
        """Forget the keys below ``offset`` if ``generation`` is the current generation."""
        if generation == self.generation:
            self._take_below(offset)
            self._next = max(self._next, offset)

    def discard(self, generation: int, offset: int, count: int) -> bytes:
        """Settle all bytes below ``offset``: the rank has discarded the last ``count`` of them.

        Return the discarded keys that were unsettled.
        """
        if generation != self.generation:
            return b""
        self._take_below(offset - count)
        lost = self._take_below(offset)
        self._next = max(self._next, offset)
        return lost

    def abandon(self) -> bytes:
        """Forget all keys and return them: they can't be sent again."""
        left = b"".join(typed.data for typed in self._typed)
        self._typed.clear()
        return left

    def abandon_but(self, stop: int | None) -> bytes:
        """Forget the keys that were typed for any other stop, and return them."""
        left = b"".join(typed.data for typed in self._typed if typed.stop != stop)
        self._typed = deque(typed for typed in self._typed if typed.stop == stop)
        return left

    def abandon_unsent(self) -> bytes:
        """Forget and return the keys that waited for a debugger that never opened; their offsets are used again."""
        kept = deque(typed for typed in self._typed if typed.session is not None)
        left = b"".join(typed.data for typed in self._typed if typed.session is None)
        if left:
            # These keys are the newest. Keys that are typed next reuse their offsets, so the rank sees no gap.
            self._typed = kept
            self._next -= len(left)
        return left

    def _take_below(self, offset: int) -> bytes:
        taken = []
        while self._typed and self._typed[0].offset < offset:
            first = self._typed.popleft()
            if first.end > offset:
                cut = offset - first.offset
                self._typed.appendleft(replace(first, offset=offset, data=first.data[cut:]))
                taken.append(first.data[:cut])
                break
            taken.append(first.data)
        return b"".join(taken)
