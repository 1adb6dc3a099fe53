"""The state of terminals: connections, seats, and what each is sent of the ranks, as fast as it reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial

from dbg_broker.feed import Feed, Passes
from dbg_broker.hub.links import TerminalLink
from dbg_broker.net.turns import Turns
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.terminals.seats import Seats
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.messages import Change, Gone, Message, Seat, Snapshot
from dbg_wire.records.ranks import RankInfo, fold_ranks

SNAPSHOT_BYTES = limits.MAX_CONTROL_BYTES // 2
"""Bytes after which a page of a snapshot ends, estimated from above; half, since the last rank may be large."""

RANK_BYTES = 1024 + 192
"""Bytes of a rank in a snapshot, its paths aside."""

ESCAPED_BYTES = 6
"""Bytes that JSON may make of one character."""


SNAPSHOT_RANKS = 50
"""Ranks in one page of a snapshot, or looked at for it: they take a millisecond."""

MAX_FRAMES = 4096
"""Messages about ranks that are kept for other terminals, a KiB each at most."""


GATHER_SECONDS = 0.05
"""Seconds that answers wait for equal ones of other ranks, with which they are sent once; nobody notices them."""


class Listing:
    """The list of ranks, as it is sent to terminals.

    Changes wait for a terminal as keys of ranks, and become messages when its connection takes them. A slow terminal
    then costs little, and gets the last state of each rank instead of all states.
    """

    def __init__(
        self,
        registry: Registry,
        seats: Seats,
        terminals: dict[int, TerminalLink],
        *,
        timers: Timers,
        turns: Turns,
    ) -> None:
        self._registry = registry
        self._seats = seats
        self._terminals = terminals
        self._timers, self._turns = timers, turns
        self.feed: Feed[str] = Feed()
        self._gone: set[str] = set()
        self._passes = Passes(self._readers, turns.begin, timers)
        self._frames: dict[str, bytes] = {}
        """Messages about ranks that have been made for one terminal, and are right for the next."""

    def info(self, rank: RankRecord) -> RankInfo:
        """Return a rank as it is listed."""
        return rank.info(
            # Computed anew each time: the wall clock is set now and then, and goes on while the host sleeps.
            began=self._timers.wall() - self._timers.clock(),
            seats=self._seats.counts_at(rank.key),
        )

    def may_see(self, link: TerminalLink, key: str) -> bool:
        """Tell whether a rank is of the job that a terminal's token is for; a token for no one job is for all ranks."""
        rank = self._registry.find(key)
        return link.bearer.job is None or (rank is not None and link.bearer.may_see(rank.identity.job))

    def changed(self, key: str) -> None:
        """Note that a rank's listing changed; terminals are told once per round of the event loop."""
        self.feed.changed(key)
        self._frames.pop(key, None)
        if self._registry.find(key) is None:
            self._gone.add(key)
        self._passes.changed()

    def supply(self, link: TerminalLink) -> None:
        """Send a terminal what waits for it, in slices and as long as it takes frames."""
        if not link.is_supplied and link.connection.is_ready:
            link.is_supplied = True
            self._turns.begin(self._supplying(link))

    def supply_answers(self, link: TerminalLink) -> None:
        """Send a terminal the answers that wait for it, those of a question that is open after GATHER_SECONDS."""
        if link.answers.may_send:
            self.supply(link)
        elif not link.gathers:
            link.gathers = True
            self._timers.schedule(GATHER_SECONDS, partial(self._gathered, link))

    def _gathered(self, link: TerminalLink) -> None:
        link.gathers = False
        link.answers.gathered()
        self.supply(link)

    def _supplying(self, link: TerminalLink) -> Iterator[None]:
        try:
            while link.connection.is_ready and self._send_next(link):
                yield
        finally:
            link.is_supplied = False

    def _send_next(self, link: TerminalLink) -> bool:
        """Send one message of what waits for a terminal, and tell whether there was one."""
        connection = link.connection
        if link.changes.has_snapshot:
            connection.send_control(pack_message(self._snapshot_page(link)))
        elif (key := self._change_of(link)) is not None:
            connection.send_control(self._change_frame(key))
        elif link.answers.may_send and (page := link.answers.page()) is not None:
            connection.send_message(page)
        else:
            return False
        return True

    def _readers(self) -> Iterator[Callable[[], None]]:
        """Return a call for each terminal, which may be told of changes."""
        self._frames.clear()
        links = tuple(self._terminals.values())
        # All terminals have been told that these ranks are gone.
        told = min((link.changes.place for link in links if link.changes.subscribed), default=self.feed.end)
        for key in [key for key in self._gone if not self.feed.has_changed(key, told)]:
            self._gone.remove(key)
            if self._registry.find(key) is None:
                self.feed.forget(key)
        for link in links:
            yield partial(self.supply, link)

    def _change_of(self, link: TerminalLink) -> str | None:
        """Return the next rank to tell a terminal of; one that its token is not for is none."""
        viewer = self._seats.viewer(link.number)
        seat = None if viewer is None else viewer.key
        while (key := link.changes.change(self.feed, seat)) is not None:
            if self._is_news(link, key):
                return key
        return None

    def _is_news(self, link: TerminalLink, key: str) -> bool:
        if link.told is None:
            return True
        if self.may_see(link, key):
            link.told.add(key)
            return True
        # The terminal has to hear that a rank is gone which it was told of.
        is_told = key in link.told
        link.told.discard(key)
        return is_told

    def _change_frame(self, key: str) -> bytes:
        frame = self._frames.get(key)
        if frame is None:
            rank = self._registry.find(key)
            frame = pack_message(Gone(key=key) if rank is None else Change(rank=self.info(rank)))
            if len(frame) <= limits.KIB and len(self._frames) < MAX_FRAMES:
                self._frames[key] = frame
        return frame

    def _snapshot_page(self, link: TerminalLink) -> Snapshot:
        ranks: list[RankInfo] = []
        size = 0
        for _ in range(SNAPSHOT_RANKS):
            if size >= SNAPSHOT_BYTES or (key := link.changes.next_listed()) is None:
                break
            rank = self._registry.find(key) if self.may_see(link, key) else None
            if rank is not None:
                ranks.append(self.info(rank))
                if link.told is not None:
                    link.told.add(key)
                size += _size_at_most(ranks[-1])
        last = link.changes.end_page()
        if link.changes.folds:
            return Snapshot(ranks=(), folded=fold_ranks(ranks), last=last)
        return Snapshot(ranks=tuple(ranks), last=last)


def _size_at_most(info: RankInfo) -> int:
    place = info.where
    texts = len(info.script) + len(info.directory) + (len(place.file) + len(place.function) if place else 0)
    return RANK_BYTES + len(info.key) + ESCAPED_BYTES * texts


SEATS_AT_ONCE = 4
"""Seats that are sent at once, that of the terminal that asked first: each may carry half a MiB of breakpoints."""


class Terminals:
    """All terminals: ``links`` are their connections by number, ``watchers`` those with a watcher's token."""

    def __init__(self, registry: Registry, timers: Timers, turns: Turns) -> None:
        self._registry, self._turns = registry, turns
        self.links: dict[int, TerminalLink] = {}
        self.watchers: dict[int, None] = {}
        self.seats = Seats()
        self.log_listeners: dict[int, int] = {}
        """By number, the clients that want texts of log points, and how many they have missed since the last one."""
        self.listing = Listing(registry, self.seats, self.links, timers=timers, turns=turns)
        self._seats_due: dict[int, None] = {}

    def send(self, key: str, message: Message, instead_of: Hashable = None) -> None:
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
                self._turns.begin(self._sending_seats())

    def _sending_seats(self) -> Iterator[None]:
        try:
            while self._seats_due:
                number = next(iter(self._seats_due))
                del self._seats_due[number]
                if number in self.links:
                    self.send_seat(number)
                yield
        finally:
            # After an error the other terminals get their seats all the same.
            if self._seats_due:
                self._turns.begin(self._sending_seats())
