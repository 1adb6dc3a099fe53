"""Seats: for each rank its driver, its watchers, and the size of its screen.

Pure: viewers are connection numbers, and every change is returned as a :class:`Decision`, which the caller carries out.
A rank never has more than one driver, and the generation of its driver only grows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from dbg_wire import limits
from dbg_wire.messages import Attach, Mode, Viewers
from dbg_wire.records.ranks import NO_SEATS, SeatCounts

MAX_GENERATION = 2**32 - 1
"""Largest generation that a binary frame can carry."""

RESUME_AHEAD = 1000
"""How far a terminal's generation may be ahead of the rank's: the driver may change while the rank is disconnected."""

DEFAULT_ROWS, DEFAULT_COLUMNS, DEFAULT_COLORS = 24, 80, 256


@dataclass(frozen=True, slots=True)
class Decision:
    """Consequences of a change: the terminals that are sent their seats, and the ranks that are sent their viewers.

    ``seats`` are numbers of terminals, beginning with the one that caused the change. ``audiences`` are keys of ranks;
    their lines in the list change as well.
    """

    seats: tuple[int, ...] = ()
    audiences: tuple[str, ...] = ()


class InputVerdict(enum.Enum):
    """How to handle input."""

    ACCEPTED = "accepted"
    NOT_ATTACHED = "not attached"
    NOT_DRIVING = "not driving"
    STALE = "stale"


@dataclass(slots=True)
class Viewer:
    """A terminal at a rank, with its size and the debugger and frame that it requests."""

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
class _RankSeats:
    """Terminals of one rank. ``generation`` is the latest one that this broker assigned, or 0."""

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
        # The requested frame is used only once: if this terminal takes the keyboard again later, the debugger stays at
        # the frame where the former driver left it.
        viewer.frame = ""
        self.use_size_of(viewer)

    def use_engine_of(self, viewer: Viewer) -> None:
        self.engine, self.fallback_engine = viewer.engine, viewer.fallback_engine

    def use_size_of(self, viewer: Viewer) -> None:
        self.rows, self.columns, self.colors = viewer.rows, viewer.columns, viewer.colors


class Seats:
    """All terminals at all ranks."""

    def __init__(self) -> None:
        self._rooms: dict[str, _RankSeats] = {}
        self._viewers: dict[int, Viewer] = {}

    # ---------------------------------------------------------------------------------------------------------- queries

    def viewer(self, number: int) -> Viewer | None:
        """Return the viewer of a terminal, or None if it is not attached."""
        return self._viewers.get(number)

    def viewers(self, key: str) -> list[int]:
        """Return the terminals at a rank, the driver first."""
        room = self._rooms.get(key)
        return [viewer.number for viewer in room.viewers()] if room else []

    def is_attended(self, key: str) -> bool:
        """Return True if a terminal is attached to a rank."""
        room = self._rooms.get(key)
        return room is not None and room.size() > 0

    def is_full(self, key: str, number: int) -> bool:
        """Return True if a rank has no seat for another watcher; one seat is always reserved for a driver."""
        room, viewer = self._rooms.get(key), self._viewers.get(number)
        sits_there = viewer is not None and viewer.key == key
        return room is not None and len(room.watchers) >= limits.MAX_VIEWERS_PER_RANK - 1 and not sits_there

    def latest_viewers(self, key: str) -> Iterator[int]:
        """Return the watchers of a rank, the latest first."""
        room = self._rooms.get(key)
        return reversed(room.watchers) if room is not None else iter(())

    def driver(self, key: str) -> str | None:
        """Return the name of a rank's driver, or None."""
        room = self._rooms.get(key)
        return room.driver.name if room and room.driver else None

    def counts_at(self, key: str) -> SeatCounts:
        """Return the seats at a rank as they are listed."""
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
        """Return the number of watchers of a rank."""
        room = self._rooms.get(key)
        return len(room.watchers) if room else 0

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of ranks with a terminal, of drivers, and of watchers."""
        occupied = sum(1 for room in self._rooms.values() if room.size())
        drivers = sum(1 for room in self._rooms.values() if room.driver)
        return occupied, drivers, len(self._viewers) - drivers

    def generation_of(self, number: int) -> int | None:
        """Return the generation for a terminal's input, or None if it is not a driver."""
        viewer = self._viewers.get(number)
        room = self._rooms[viewer.key] if viewer else None
        return room.generation if room and room.driver is viewer else None

    def judge_input(self, number: int, generation: int) -> InputVerdict:
        """Return how to handle a terminal's input that has this generation."""
        viewer = self._viewers.get(number)
        if viewer is None:
            return InputVerdict.NOT_ATTACHED
        room = self._rooms[viewer.key]
        if room.driver is not viewer:
            return InputVerdict.NOT_DRIVING
        return InputVerdict.ACCEPTED if generation == room.generation else InputVerdict.STALE

    def viewers_message(self, key: str, rank_generation: int) -> Viewers:
        """Return the message to a rank about its viewers; the rank knows generations up to ``rank_generation``."""
        room = self._rooms.get(key) or _RankSeats()
        return Viewers(
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

    # -------------------------------------------------------------------------------------------------------- terminals

    def attach(self, number: int, name: str, asked: Attach, rank_generation: int) -> Decision:
        """Seat a terminal at a rank, and free its former seat.

        If the rank has a driver, mode ``drive`` gives a watcher's seat. Exception: if ``resume`` is the current
        generation, this terminal is that driver on a newer connection, and gets the driver's seat.
        """
        left = self.leave(number)
        room = self._rooms.setdefault(asked.key, _RankSeats())
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
            # A generation that this terminal held and that the rank does not know must not be assigned again.
            ahead = asked.resume if asked.resume and asked.resume <= current + RESUME_AHEAD else 0
            current = min(max(current, ahead) + 1, MAX_GENERATION)
        return _both(self._hand_over(asked.key, room, viewer, current), left)

    def take(self, number: int, rank_generation: int) -> Decision:
        """Make a terminal the driver of its rank; a terminal that already drives is sent its seat again."""
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
        """Record whether a terminal is silent. Return the rank if this changed and the terminal is its driver."""
        viewer = self._viewers.get(number)
        if viewer is None or viewer.is_silent == silent:
            return None
        viewer.is_silent = silent
        return viewer.key if self._rooms[viewer.key].driver is viewer else None

    def resize(self, number: int, rows: int, columns: int) -> Decision:
        """Record a terminal's size.

        A rank uses the size of its driver, or before it has had a driver, the size of its first watcher.
        """
        viewer = self._viewers[number]
        room = self._rooms[viewer.key]
        viewer.rows = _within(rows, limits.MIN_ROWS, limits.MAX_ROWS)
        viewer.columns = _within(columns, limits.MIN_COLUMNS, limits.MAX_COLUMNS)
        if not (room.driver is viewer or (not room.was_driven and next(iter(room.watchers)) == number)):
            return Decision()
        room.use_size_of(viewer)
        return Decision((), (viewer.key,))

    # ------------------------------------------------------------------------------------------------------------ ranks

    def rank_came(self, key: str, rank_generation: int) -> Decision:
        """Handle a rank's registration: send its terminals their seats again, and send the rank its viewers.

        A rank that never had a terminal is sent nothing: after each disconnection, a rank assumes that it has no
        viewers. If the rank has had drivers at another broker since, the driver here gets a new generation.
        """
        room = self._rooms.get(key)
        if room is None:
            return Decision((), (key,) if rank_generation else ())
        if room.driver is not None and rank_generation > room.generation:
            room.generation = min(rank_generation + 1, MAX_GENERATION)
        return Decision(tuple(self.viewers(key)), (key,))

    def rank_gone(self, key: str) -> list[int]:
        """Forget a rank that is no longer listed. Return the terminals that were attached to it."""
        room = self._rooms.pop(key, None)
        numbers = [viewer.number for viewer in room.viewers()] if room else []
        for number in numbers:
            del self._viewers[number]
        return numbers

    # --------------------------------------------------------------------------------------------------------- internal

    def _seat_watcher(self, room: _RankSeats, viewer: Viewer) -> None:
        if not room.was_driven and not room.watchers:
            # A watcher does not choose the engine. The next driver gets the open debugger; if no debugger is open, the
            # driver gets the debugger that it requests.
            room.use_size_of(viewer)
        room.watchers[viewer.number] = viewer

    def _hand_over(self, key: str, room: _RankSeats, viewer: Viewer, generation: int) -> Decision:
        former = room.driver
        room.generation = generation
        room.sit_down_to_type(viewer)
        if former is not None:
            room.watchers[former.number] = former
        return Decision((viewer.number, *room.watchers), (key,))


def _both(first: Decision, second: Decision) -> Decision:
    """Return two decisions as one, without duplicates."""
    seats = tuple(dict.fromkeys(first.seats + second.seats))
    return Decision(seats, tuple(dict.fromkeys(first.audiences + second.audiences)))


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
