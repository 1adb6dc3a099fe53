"""The state of terminals: their connections and seats, and what each of them is sent."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from dbg_broker.hub.links import NOBODY, TerminalLink
from dbg_broker.hub.listing import Listing
from dbg_broker.net.frames import pack_message
from dbg_broker.net.turns import Turns
from dbg_broker.ranks.questions import OpenQuestions
from dbg_broker.ranks.registry import Registry
from dbg_broker.terminals.notices import LogListeners
from dbg_broker.terminals.seats import Seats
from dbg_broker.timers import Timers
from dbg_wire.messages import Message, Seat

SEATS_AT_ONCE = 4
"""Seats that are sent at once, that of the terminal that asked first: each may carry half a MiB of breakpoints."""


class Terminals:
    """All terminals: ``links`` are their connections by number, ``watchers`` those with a watcher's token."""

    def __init__(self, registry: Registry, questions: OpenQuestions, timers: Timers, turns: Turns) -> None:
        self._registry, self._turns = registry, turns
        self.links: dict[int, TerminalLink] = {}
        self.watchers: dict[int, None] = {}
        self.seats = Seats()
        self.log_listeners = LogListeners()
        self.listing = Listing(registry, self.seats, self.links, questions, timers=timers, turns=turns)
        self._seats_due: dict[int, None] = {}

    def tell(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to all terminals at a rank."""
        numbers = self.seats.viewers(key)
        if numbers:
            frame = pack_message(message)
            for number in numbers:
                self.links[number].connection.send_control(frame, instead_of)

    def send_seat(self, number: int) -> None:
        """Send a terminal the seat that it has, and what the rank there has reported."""
        viewer = self.seats.viewer(number)
        rank = self._registry.find(viewer.key) if viewer else None
        if viewer is None or rank is None:
            return
        seat = Seat(
            rank=self.listing.info(rank),
            report=rank.report,
            generation=self.seats.generation_of(number),
            driver=self.seats.driver(viewer.key),
            watchers=self.seats.watchers(viewer.key),
        )
        self.links[number].connection.send_message(seat)

    def send_seats(self, numbers: Sequence[int]) -> None:
        """Send terminals their seats, of many most of them in slices."""
        for number in numbers[:SEATS_AT_ONCE]:
            self.send_seat(number)
        if len(numbers) > SEATS_AT_ONCE:
            are_sent = bool(self._seats_due)
            self._seats_due.update(dict.fromkeys(numbers[SEATS_AT_ONCE:]))
            if not are_sent:
                self._turns.begin(self._sending_seats(), NOBODY)

    def _sending_seats(self) -> Iterator[None]:
        while self._seats_due:
            number = next(iter(self._seats_due))
            del self._seats_due[number]
            if number in self.links:
                self.send_seat(number)
            yield
