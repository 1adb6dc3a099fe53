"""Which terminal types at which rank, which ones look, and at what size.

Pure: viewers are connection numbers, and every change is returned as data for the owner of the sockets. A rank never
has more than one driver, and the generation of its driver only grows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from dbg_wire import limits
from dbg_wire.messages import Attach, Audience, Mode
from dbg_wire.records.ranks import NO_SEATS, SeatCounts

MAX_GENERATION = 2**32 - 1
"""The largest generation that a binary frame can carry."""

RESUME_AHEAD = 1000
"""How far a terminal's generation may be ahead of the rank's: the keyboard may change hands while the rank is away."""

DEFAULT_ROWS, DEFAULT_COLUMNS, DEFAULT_COLORS = 24, 80, 256


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from a change: which terminals get a new seat, which ranks get a new audience.

    ``seats`` names viewers, first the one that asked. ``audiences`` names ranks, whose listing changes as well.
    """

    seats: tuple[int, ...] = ()
    audiences: tuple[str, ...] = ()


class InputVerdict(enum.Enum):
    """What is to be done with input."""

    ACCEPTED = "accepted"
    NOT_ATTACHED = "not attached"
    NOT_DRIVING = "not driving"
    STALE = "stale"


@dataclass(slots=True)
class Viewer:
    """One terminal at a rank."""

    number: int
    name: str
    key: str
    rows: int
    columns: int
    colors: int
    engine: str | None
    fallback_engine: str | None
    frame: str = ""
    is_silent: bool = False


@dataclass(slots=True)
class _Room:
    """The terminals of one rank. ``generation`` is the last one given out here, 0 if none was."""

    generation: int = 0
    driver: Viewer | None = None
    watchers: dict[int, Viewer] = field(default_factory=dict)
    rows: int = DEFAULT_ROWS
    columns: int = DEFAULT_COLUMNS
    colors: int = DEFAULT_COLORS
    engine: str | None = None
    fallback_engine: str | None = None
    frame: str = ""
    was_driven: bool = False

    def viewers(self) -> Iterator[Viewer]:
        if self.driver is not None:
            yield self.driver
        yield from self.watchers.values()

    def size(self) -> int:
        return len(self.watchers) + (self.driver is not None)

    def sit_down_to_type(self, viewer: Viewer) -> None:
        self.watchers.pop(viewer.number, None)
        self.driver = viewer
        self.was_driven = True
        self.use_engine_of(viewer)
        self.frame = viewer.frame
        # A terminal that takes the keyboard later has the stop as the driver before it has left it.
        viewer.frame = ""
        self.use_size_of(viewer)

    def use_engine_of(self, viewer: Viewer) -> None:
        self.engine, self.fallback_engine = viewer.engine, viewer.fallback_engine

    def use_size_of(self, viewer: Viewer) -> None:
        self.rows, self.columns, self.colors = viewer.rows, viewer.columns, viewer.colors


class Seats:
    """All terminals at all ranks."""

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._viewers: dict[int, Viewer] = {}

    # --------------------------------------------------------------------------------------------------------- asking

    def viewer(self, number: int) -> Viewer | None:
        """Return where a terminal sits, or None."""
        return self._viewers.get(number)

    def viewers(self, key: str) -> list[int]:
        """Return the terminals at a rank, the driver first."""
        room = self._rooms.get(key)
        return [viewer.number for viewer in room.viewers()] if room else []

    def is_attended(self, key: str) -> bool:
        """Tell whether a terminal sits at a rank."""
        room = self._rooms.get(key)
        return room is not None and room.size() > 0

    def is_full(self, key: str, number: int) -> bool:
        """Tell whether a rank has no seat left for one more watcher; one seat is always kept for a driver."""
        room, viewer = self._rooms.get(key), self._viewers.get(number)
        sits_there = viewer is not None and viewer.key == key
        return room is not None and len(room.watchers) >= limits.MAX_VIEWERS_PER_RANK - 1 and not sits_there

    def last_to_look(self, key: str) -> Iterator[int]:
        """Return the terminals that only look at a rank, the latest first."""
        room = self._rooms.get(key)
        return reversed(room.watchers) if room is not None else iter(())

    def driver(self, key: str) -> str | None:
        """Return the name of the terminal that types at a rank, or None."""
        room = self._rooms.get(key)
        return room.driver.name if room and room.driver else None

    def counts_at(self, key: str) -> SeatCounts:
        """Return who is at a rank, as it is listed."""
        room = self._rooms.get(key)
        if room is None or not room.size():
            return NO_SEATS
        driver = room.driver
        return SeatCounts(
            driver=driver.name if driver else None,
            driver_silent=driver is not None and driver.is_silent,
            watchers=len(room.watchers),
        )

    def watchers(self, key: str) -> int:
        """Return how many terminals only look at a rank."""
        room = self._rooms.get(key)
        return len(room.watchers) if room else 0

    def counts(self) -> tuple[int, int, int]:
        """Return how many ranks have a terminal, how many terminals type, and how many only look."""
        occupied = sum(1 for room in self._rooms.values() if room.size())
        drivers = sum(1 for room in self._rooms.values() if room.driver)
        return occupied, drivers, len(self._viewers) - drivers

    def generation_of(self, number: int) -> int | None:
        """Return the number a terminal tags its input with, None if it doesn't type."""
        viewer = self._viewers.get(number)
        room = self._rooms[viewer.key] if viewer else None
        return room.generation if room and room.driver is viewer else None

    def judge_input(self, number: int, generation: int) -> InputVerdict:
        """Say what is to be done with input of a terminal that is tagged with a generation."""
        viewer = self._viewers.get(number)
        if viewer is None:
            return InputVerdict.NOT_ATTACHED
        room = self._rooms[viewer.key]
        if room.driver is not viewer:
            return InputVerdict.NOT_DRIVING
        return InputVerdict.ACCEPTED if generation == room.generation else InputVerdict.STALE

    def audience(self, key: str, rank_generation: int) -> Audience:
        """Return what a rank must know of its terminals; ``rank_generation`` is the last number it knows itself."""
        room = self._rooms.get(key) or _Room()
        return Audience(
            viewers=room.size(),
            generation=max(room.generation, rank_generation),
            rows=room.rows,
            columns=room.columns,
            colors=room.colors,
            engine=room.engine,
            fallback_engine=room.fallback_engine,
            driven=room.driver is not None,
            frame=room.frame,
        )

    # ------------------------------------------------------------------------------------------------------- terminals

    def attach(self, number: int, name: str, asked: Attach, rank_generation: int) -> Decision:
        """Seat a terminal at a rank, leaving the one before.

        If another terminal types, ``drive`` gives a watcher's seat, unless ``resume`` is the current generation: then
        this terminal is the one that types, over a newer connection.
        """
        left = self.leave(number)
        room = self._rooms.setdefault(asked.key, _Room())
        viewer = Viewer(
            number,
            name,
            asked.key,
            _within(asked.rows, limits.MIN_ROWS, limits.MAX_ROWS),
            _within(asked.columns, limits.MIN_COLUMNS, limits.MAX_COLUMNS),
            _within(asked.colors, 1, 1 << 24),
            asked.engine,
            asked.fallback_engine,
            asked.frame,
        )
        self._viewers[number] = viewer
        current = max(room.generation, rank_generation)
        resumes = asked.resume is not None and 0 < asked.resume == current
        if asked.mode is Mode.WATCH or (asked.mode is Mode.DRIVE and room.driver is not None and not resumes):
            viewer.frame = ""
            self._seat_watcher(room, viewer)
            return _both(Decision((number,), (asked.key,)), left)
        if not resumes:
            # A generation that this terminal held and the rank never heard of must not be given out again.
            ahead = asked.resume if asked.resume and asked.resume <= current + RESUME_AHEAD else 0
            current = min(max(current, ahead) + 1, MAX_GENERATION)
        return _both(self._hand_over(asked.key, room, viewer, current), left)

    def take(self, number: int, rank_generation: int) -> Decision:
        """Give the keyboard to a terminal that sits at a rank; its driver is sent the seat again."""
        viewer = self._viewers[number]
        room = self._rooms[viewer.key]
        if room.driver is viewer:
            return Decision((number,))
        generation = min(max(room.generation, rank_generation) + 1, MAX_GENERATION)
        return self._hand_over(viewer.key, room, viewer, generation)

    def leave(self, number: int) -> Decision:
        """Free a terminal's seat, if it has one."""
        viewer = self._viewers.pop(number, None)
        if viewer is None:
            return Decision()
        room = self._rooms[viewer.key]
        room.watchers.pop(number, None)
        if room.driver is not viewer:
            return Decision((), (viewer.key,))
        room.driver = None
        return Decision(tuple(room.watchers), (viewer.key,))

    def note_silence(self, number: int, silent: bool) -> str | None:
        """Note whether a terminal is silent; return its rank if it types there and this has changed."""
        viewer = self._viewers.get(number)
        if viewer is None or viewer.is_silent == silent:
            return None
        viewer.is_silent = silent
        return viewer.key if self._rooms[viewer.key].driver is viewer else None

    def resize(self, number: int, rows: int, columns: int) -> Decision:
        """Note a terminal's size; it counts for a driver, and for the first watcher before any driver."""
        viewer = self._viewers[number]
        room = self._rooms[viewer.key]
        viewer.rows = _within(rows, limits.MIN_ROWS, limits.MAX_ROWS)
        viewer.columns = _within(columns, limits.MIN_COLUMNS, limits.MAX_COLUMNS)
        if not (room.driver is viewer or (not room.was_driven and next(iter(room.watchers)) == number)):
            return Decision()
        room.use_size_of(viewer)
        return Decision((), (viewer.key,))

    # ----------------------------------------------------------------------------------------------------------- ranks

    def rank_came(self, key: str, rank_generation: int) -> Decision:
        """Note that a rank registered: its terminals are sent their seats again, and it gets its audience.

        A rank at which no terminal has ever sat knows its audience: it counts no viewers once its connection has ended.
        If the rank has had drivers at another broker meanwhile, the driver here gets a new generation.
        """
        room = self._rooms.get(key)
        if room is None:
            return Decision((), (key,) if rank_generation else ())
        if room.driver is not None and rank_generation > room.generation:
            room.generation = min(rank_generation + 1, MAX_GENERATION)
        return Decision(tuple(self.viewers(key)), (key,))

    def rank_gone(self, key: str) -> list[int]:
        """Forget a rank that is no longer listed, and return the terminals that sat there."""
        room = self._rooms.pop(key, None)
        numbers = [viewer.number for viewer in room.viewers()] if room else []
        for number in numbers:
            del self._viewers[number]
        return numbers

    # ------------------------------------------------------------------------------------------------------ inner moves

    def _seat_watcher(self, room: _Room, viewer: Viewer) -> None:
        if not room.was_driven and not room.watchers:
            # A watcher's wish for a debugger doesn't count: the next driver gets the open one, or what it wishes.
            room.use_size_of(viewer)
        room.watchers[viewer.number] = viewer

    def _hand_over(self, key: str, room: _Room, viewer: Viewer, generation: int) -> Decision:
        former = room.driver
        room.generation = generation
        room.sit_down_to_type(viewer)
        if former is not None:
            room.watchers[former.number] = former
        return Decision((viewer.number, *room.watchers), (key,))


def _both(first: Decision, second: Decision) -> Decision:
    """Return the decisions as one, with no name twice."""
    seats = tuple(dict.fromkeys(first.seats + second.seats))
    return Decision(seats, tuple(dict.fromkeys(first.audiences + second.audiences)))


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
