"""Keys on their way to the debugger: each applied once, to the stop it was typed for, or reported as discarded.

Pure and without locks; :mod:`dbg_agent.stop.inbox` owns one and guards it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.codec import Input
from dbg_wire.limits import MAX_INPUT_PENDING


@dataclass(frozen=True, slots=True)
class Loss:
    """Say that ``count`` bytes ending at ``offset`` of ``generation`` will never be applied."""

    generation: int
    offset: int
    count: int
    reason: str


class TypedKeys:
    """Keep one driver's keys in order until the debugger takes them.

    ``applied`` counts the bytes of this generation that were taken or discarded, ``received`` those that came at all;
    what lies between is pending.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.received = 0
        self._pending = bytearray()

    @property
    def applied(self) -> int:
        """Return up to which offset everything is settled."""
        return self.received - len(self._pending)

    @property
    def pending(self) -> int:
        """Return how many bytes wait."""
        return len(self._pending)

    def change_driver(self, generation: int) -> Loss | None:
        """Accept only this generation from here on; what a former driver typed ahead is lost."""
        if generation == self.generation:
            return None
        loss = self.discard("the keyboard was handed over")
        self.generation = generation
        self.received = 0
        return loss

    def receive(self, frame: Input, *, stop: int | None, session: int | None) -> Loss | None:
        """Take in a frame while ``stop`` and ``session`` are current; return what of it is lost.

        Bytes that came before are dropped silently: they were settled when they came first.
        """
        if frame.generation != self.generation:
            return Loss(frame.generation, frame.offset + len(frame.data), len(frame.data), "the keyboard was taken")
        end = frame.offset + len(frame.data)
        fresh = frame.data[max(0, self.received - frame.offset) :]
        if not fresh:
            return None
        if frame.stop != stop or frame.session != session:
            # Nothing can be pending here: what was typed for a stop or session is discarded when that ends.
            self.received = end
            return Loss(self.generation, end, len(fresh), "the stop it was typed for has ended")
        room = MAX_INPUT_PENDING - len(self._pending)
        if len(fresh) > room:
            # All of the frame goes, since half a paste may be a command.
            lost = len(self._pending) + len(fresh)
            self._pending.clear()
            self.received = end
            return Loss(self.generation, end, lost, f"more than {MAX_INPUT_PENDING} bytes were typed ahead")
        self.received = end
        self._pending += fresh
        return None

    def peek(self, count: int) -> bytes:
        """Return up to ``count`` bytes that wait."""
        return bytes(self._pending[:count])

    def take(self, count: int) -> None:
        """Count the first ``count`` bytes as applied."""
        del self._pending[:count]

    def discard(self, reason: str) -> Loss | None:
        """Drop all that waits; return what was lost, or None if nothing was."""
        if not self._pending:
            return None
        count = len(self._pending)
        self._pending.clear()
        return Loss(self.generation, self.received, count, reason)
