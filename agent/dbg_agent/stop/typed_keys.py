"""Keys on their way to the debugger: each is applied once, to the stop it was typed for, or reported as discarded.

Pure and without locks; the inbox of :mod:`dbg_agent.stop.inbox` calls it under its own lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.codec import Input
from dbg_wire.limits import MAX_INPUT_PENDING


@dataclass(frozen=True, slots=True)
class Loss:
    """Keys that will never be applied: ``count`` bytes of ``generation``, ending at ``offset``."""

    generation: int
    offset: int
    count: int
    reason: str


class TypedKeys:
    """One driver's keys, in order, until the debugger takes them.

    ``applied`` counts the bytes of this generation that were taken or discarded, ``received`` all bytes that came; the
    bytes between the two are pending.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.received = 0
        self._pending = bytearray()

    @property
    def applied(self) -> int:
        """Return the offset up to which all bytes were taken or discarded."""
        return self.received - len(self._pending)

    @property
    def pending(self) -> int:
        """Return how many bytes wait."""
        return len(self._pending)

    def change_driver(self, generation: int) -> Loss | None:
        """Accept only this generation from here on; keys that a former driver typed ahead are lost."""
        if generation == self.generation:
            return None
        loss = self.discard("the keyboard was handed over")
        self.generation = generation
        self.received = 0
        return loss

    def receive(self, frame: Input, *, stop: int | None, session: int | None) -> Loss | None:
        """Take a frame while ``stop`` and ``session`` are current; return the lost keys, if any.

        Bytes that came before are dropped silently: they were applied or discarded then.
        """
        if frame.generation != self.generation:
            return Loss(frame.generation, frame.offset + len(frame.data), len(frame.data), "the keyboard was taken")
        end = frame.offset + len(frame.data)
        fresh = frame.data[max(0, self.received - frame.offset) :]
        if not fresh:
            return None
        if frame.stop != stop or frame.session != session:
            # No keys are pending here: the end of a stop or session discards the keys that were typed for it.
            self.received = end
            return Loss(self.generation, end, len(fresh), "the stop it was typed for has ended")
        room = MAX_INPUT_PENDING - len(self._pending)
        if len(fresh) > room:
            # The whole frame is dropped, with all that waits, since half a paste may be a command.
            lost = len(self._pending) + len(fresh)
            self._pending.clear()
            self.received = end
            return Loss(self.generation, end, lost, f"more than {MAX_INPUT_PENDING} bytes were typed ahead")
        self.received = end
        self._pending += fresh
        return None

    def peek(self, count: int) -> bytes:
        """Return up to ``count`` waiting bytes."""
        return bytes(self._pending[:count])

    def take(self, count: int) -> None:
        """Count the first ``count`` bytes as applied."""
        del self._pending[:count]

    def discard(self, reason: str) -> Loss | None:
        """Drop all waiting keys; return them as a Loss, or None if there are none."""
        if not self._pending:
            return None
        count = len(self._pending)
        self._pending.clear()
        return Loss(self.generation, self.received, count, reason)
