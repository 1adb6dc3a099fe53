"""What is shown when: the time of a replay, its pauses and jumps, and the search in it. Pure, but for the tape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .cast import OUTPUT, RESIZE, read_size
from .tape import Moment, Tape
from .text import PlainText, clock

SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)

AT_ONCE = 64 * 1024
"""Characters that are drawn before the keyboard is looked at again."""

JUMP_SECONDS = 5.0
"""Seconds of an arrow key."""

OVERLAP = 200
"""Characters of earlier output in which a searched text may begin."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Output to draw; after a jump ``anew`` it begins with an empty screen."""

    data: str
    anew: bool = False


@dataclass(slots=True)
class Player:
    """Play a tape; ``now`` is in monotonic seconds everywhere."""

    tape: Tape
    now: float
    size: tuple[int, int] = field(init=False)
    """The (rows, columns) of the recorded screen."""
    position: float = field(init=False, default=0.0)
    speed: float = field(init=False, default=1.0)
    is_paused: bool = field(init=False, default=False)
    note: str = field(init=False, default="")
    """What the last key led to, in words."""
    sought: str = field(init=False, default="")
    _rest: Iterator[Moment] = field(init=False)
    _next: Moment | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.size = self.tape.header.rows, self.tape.header.columns
        self._rest = self.tape.moments()
        self._next = next(self._rest, None)

    @property
    def is_over(self) -> bool:
        """Tell whether everything is shown."""
        return self._next is None

    @property
    def marker(self) -> str:
        """Return the last marker up to now, which says who types."""
        return next((mark.text for mark in reversed(self.tape.marks) if mark.at <= self.position), "")

    def wait(self) -> float | None:
        """Return the seconds until something is to be drawn; None if nothing will be."""
        if self._next is None or self.is_paused:
            return None
        return max(0.0, (self._next.at - self.position) / self.speed)

    def advance(self, now: float) -> Draw:
        """Go on to the present time, and return what is to be drawn."""
        passed, self.now = now - self.now, now
        if self.is_paused:
            return Draw("")
        until = self.position + passed * self.speed
        drawn, length = [], 0
        while self._next is not None and self._next.at <= until and length < AT_ONCE:
            drawn.append(self._take(self._next))
            length += len(drawn[-1])
        is_behind = self._next is not None and self._next.at <= until
        self.position = self.position if is_behind else min(until, self.tape.duration)
        return Draw("".join(drawn))

    def _take(self, moment: Moment) -> str:
        self.position = moment.at
        self._next = next(self._rest, None)
        if moment.event.code == RESIZE:
            self.size = read_size(moment.event.data) or self.size
        return moment.event.data if moment.event.code == OUTPUT else ""

    # -------------------------------------------------------------------------------------------------------- keys

    def pause(self, now: float) -> None:
        """Pause, or go on."""
        self.advance_clock(now)
        self.is_paused = not self.is_paused

    def change_speed(self, step: int, now: float) -> None:
        """Play faster or slower by so many steps of SPEEDS."""
        self.advance_clock(now)
        self.speed = SPEEDS[min(max(0, SPEEDS.index(self.speed) + step), len(SPEEDS) - 1)]

    def advance_clock(self, now: float) -> None:
        """Count the time until now at the present speed, and none of it while paused."""
        passed, self.now = now - self.now, now
        if not self.is_paused:
            # Never beyond what is drawn: advance() goes there, with what belongs to it.
            limit = self.tape.duration if self._next is None else self._next.at
            self.position = min(self.position + passed * self.speed, max(limit, self.position))

    def step(self) -> Draw:
        """Draw the next output, and stay paused there."""
        self.is_paused = True
        while self._next is not None:
            if data := self._take(self._next):
                return Draw(data)
        return Draw("")

    def jump(self, position: float, now: float) -> Draw:
        """Go to a time of the replay, and return the whole screen there."""
        self.now = now
        self.position = min(max(0.0, position), self.tape.duration)
        self.size, drawn = self.tape.before(self.position)
        self._rest = self.tape.after(self.position)
        self._next = next(self._rest, None)
        return Draw("".join(moment.event.data for moment in drawn), anew=True)

    def to_marker(self, step: int, now: float) -> Draw | None:
        """Go to the next or the previous marker; None, with a note, if there is none."""
        marks = self.tape.marks if step > 0 else self.tape.marks[::-1]
        # While it plays, the previous marker is not the one that was reached a moment ago.
        margin = 0.0 if step > 0 or self.is_paused else 1.0
        for mark in marks:
            if (mark.at > self.position) if step > 0 else (mark.at < self.position - margin):
                return self.jump(mark.at, now)
        self.note = f"no marker {'follows' if step > 0 else 'stands before'}"
        return None

    def search(self, text: str, now: float) -> Draw | None:
        """Go to the next output with this text, in capitals or not, and pause; None, with a note, if there is none.

        The search goes on at the beginning; an empty text is the one before.
        """
        self.sought = text or self.sought
        if not self.sought:
            return None
        found = self._find(self.tape.after(self.position))
        again = found is None
        if found is None:
            found = self._find(self.tape.moments())
        if found is None:
            self.note = "not found"
            return None
        self.is_paused = True
        self.note = f"found {'from the beginning on, ' if again else ''}at {clock(found)}; n searches on"
        return self.jump(found, now)

    def _find(self, moments: Iterator[Moment]) -> float | None:
        wanted, plain, before = self.sought.casefold(), PlainText(), ""
        for moment in moments:
            if moment.event.code != OUTPUT:
                continue
            fresh = plain.feed(moment.event.data).casefold()
            # What stands in the earlier output alone was found before.
            if wanted in f"{before}{fresh}"[max(0, len(before) - len(wanted) + 1) :]:
                return moment.at
            before = f"{before}{fresh}"[-OVERLAP:]
        return None
