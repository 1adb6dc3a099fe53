"""The table of ranks: what is known of each, its connection, whether it lives, and who is told of its changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from dbg_broker.feed import Passes
from dbg_broker.net.outbox import Turns
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.elsewhere import Elsewhere, RankFact
from dbg_broker.ranks.failures import CrashedRanks, FirstFailures
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.liveness import DeathChecks, ProbeIntervals, ProbeSchedule, is_dead
from dbg_broker.ranks.rank_record import RankLink, RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.relay.relay import Relay, refuse
from dbg_broker.relay.seats import Decision
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_wire.errors import printable
from dbg_wire.messages import GUARD_ACTIONS, Notice, Probe, RefusalCode, Repaint, Seat
from dbg_wire.records.ranks import LINE_ENGINE, RankInfo, RankState

SEATS_AT_ONCE = 4
"""Seats that are sent at once, that of the terminal that asked first: each may carry half a MiB of breakpoints."""

REST_SECONDS = 0.05
"""Least seconds between two passes over the ranks that are told of others: one that waits does not notice them."""

REST_SECONDS_EACH = 0.0002
"""Seconds of rest for each rank that was told, twenty times the cost of that: it takes a twentieth of the time."""

PROBE = Probe()
PROBE_FRAME = pack_message(PROBE)

logger = logging.getLogger("dbg_broker")


class Watcher:
    """One who follows the ranks; each method does nothing unless it is overridden."""

    def rank_changed(self, rank: RankRecord) -> None:
        """Take in what a rank has reported, or its end."""

    def listed_anew(self, key: str) -> None:
        """Note that the line of a rank in the list is another one, or is gone."""

    def rank_gone(self, key: str) -> None:
        """Forget a rank that is no longer listed."""

    def logged(self, rank: RankRecord, notice: Notice) -> None:
        """Take the text of a log point at a rank."""


class RankTable:
    """All ranks: ``links`` and ``guards`` are the connections, by the ranks' keys."""

    def __init__(
        self,
        timers: Timers,
        turns: Turns,
        relay: Relay,
        welcomes: Welcomes,
        *,
        kernel: str | None,
        intervals: ProbeIntervals | None = None,
    ) -> None:
        """``kernel`` is the name of this host's kernel."""
        self._timers, self._turns, self._relay, self._welcomes = timers, turns, relay, welcomes
        self._kernel = kernel
        self.registry = Registry()
        self.links: dict[str, RankLink] = {}
        self.guards: dict[str, RankLink] = {}
        self.probes = ProbeSchedule(intervals or ProbeIntervals())
        self._deaths = DeathChecks()
        self._failures = FirstFailures()
        self.elsewhere = Elsewhere()
        self._held = HeldRanks(self.registry, self.elsewhere)
        self._crashed = CrashedRanks()
        self._told = Passes(self._readers, turns.begin, timers, rest=REST_SECONDS, rest_each=REST_SECONDS_EACH)
        """Tells ranks of others that they wait for, and of those of their run that are kept."""
        self._watchers: list[Watcher] = []
        self._seats_due: dict[int, None] = {}

    def add_watcher(self, watcher: Watcher) -> None:
        """Have one more follow the ranks."""
        self._watchers.append(watcher)

    def info(self, rank: RankRecord) -> RankInfo:
        """Return a rank as it is listed."""
        # Computed anew each time: the wall clock is set now and then, and goes on while the host sleeps.
        began = self._timers.wall() - self._timers.clock()
        return rank.info(began=began, seats=self._relay.seats.counts_at(rank.key))

    # --------------------------------------------------------------------------------------------------- what changes

    def changed(self, rank: RankRecord, *, is_listed_anew: bool = True) -> None:
        """Tell all who follow the ranks, and other ranks, what a change of this one means for them."""
        logger.debug("rank %s is %s", printable(rank.key), rank.state.value)
        if is_listed_anew:
            self.listed_anew(rank.key)
        for watcher in self._watchers:
            watcher.rank_changed(rank)
        if not self.elsewhere.has(rank):
            self._have_told(self._held.changed(rank), self._crashed.changed(rank))

    def hear(self, fact: RankFact) -> None:
        """Tell ranks what a rank at another broker means for them."""
        kept = fact.number if fact.is_kept else None
        self._have_told(self._held.hear(fact), self._crashed.hear(fact.launch, fact.key, kept))
        if fact.failure:
            self._explained(self._failures.hear(fact.launch, fact.key, fact.left, fact.failure, self.registry.ranks))

    def forget_fact(self, broker: str, key: str) -> None:
        """Forget what another broker has told of a rank."""
        if self.elsewhere.drop(broker, key) and self.registry.find(key) is None:
            self._forget(key)

    def take_over(self, rank: RankRecord) -> None:
        """List an ended rank of a broker that ends, if it is not known; that broker has told of its end as an event."""
        renamed = self.registry.take_over(rank, self._timers.clock())
        if renamed is not None:
            self.readdress(renamed)
            self.listed_anew(rank.key)
            self._have_told(self._held.changed(rank), self._crashed.changed(rank))
            self.note_failure(rank)

    def _have_told(self, *is_news: bool) -> None:
        if any(is_news):
            self._told.changed()

    def broke_in(self, key: str, *, is_pending: bool) -> None:
        """Note that a rank was interrupted, or that this was withdrawn, and whether it stops later."""
        rank = self.registry.find(key)
        will_stop = is_pending and rank is not None and not rank.halted
        if rank is not None and rank.will_stop != will_stop:
            rank.will_stop = will_stop
            self.listed_anew(key)

    def listed_anew(self, key: str) -> None:
        """Tell all who follow the list that the line of a rank is another one."""
        for watcher in self._watchers:
            watcher.listed_anew(key)

    def logged(self, rank: RankRecord, notice: Notice) -> None:
        """Pass the text of a log point on to all who follow the ranks."""
        for watcher in self._watchers:
            watcher.logged(rank, notice)

    def forget(self, key: str, why: str = "the rank ended long ago and is forgotten") -> None:
        """Forget a rank that the registry has removed, and tell its terminals."""
        self.listed_anew(key)
        for watcher in self._watchers:
            watcher.rank_gone(key)
        self._forget(key)
        for number in self._relay.seats.rank_gone(key):
            refuse(self._relay.terminals[number], RefusalCode.GONE, why)

    def _forget(self, key: str) -> None:
        self._failures.forget(key)
        self._held.forget(key)
        self._have_told(self._crashed.forget(key))

    def readdress(self, renamed: Iterable[RankRecord]) -> None:
        """Tell ranks that have another number the address that follows from it."""
        for rank in renamed:
            if (link := self.links.get(rank.key)) is not None:
                self._welcomes.send(link.connection, rank.address, rank.child)
            self.listed_anew(rank.key)

    def _readers(self) -> Iterator[Callable[[], None]]:
        """Return a call for each rank that is to be told something."""
        for message, keys, name in chain(self._held.news(), self._crashed.news()):
            frame = pack_message(message)
            for key in keys or ("",):
                yield partial(self._tell, key, frame, name)

    def _tell(self, key: str, frame: bytes, name: Hashable) -> None:
        """Send a frame that many ranks get; a rank that is behind is told everything later instead."""
        link = self.links.get(key)
        if link is None:
            return
        if name is not None or link.connection.is_ready:
            link.connection.send_control(frame, name)
        else:
            self._held.missed(key)
            self._told.changed()

    # ----------------------------------------------------------------------------------------------- who is connected

    def came(self, link: RankLink, rank: RankRecord) -> None:
        """Take a connection as that of a rank that has just registered."""
        link.rank = rank
        self.links[rank.key] = link
        self._relay.ranks[rank.key] = link.connection
        self.probes.add(rank.key, self._timers.clock())
        self._held.came_back(rank.key)
        self._crashed.came_back(rank.key)

    def left(self, rank: RankRecord) -> None:
        """Note that a rank's connection has ended."""
        del self.links[rank.key], self._relay.ranks[rank.key]
        self.probes.remove(rank.key)
        self.disconnected(rank)

    def disconnected(self, rank: RankRecord) -> None:
        """Note that neither a rank nor its guard is connected any more; nothing is new about one that has ended."""
        if rank.state is RankState.EXITED:
            return
        self.registry.disconnected(rank, self._timers.clock())
        if rank.state is RankState.LOST and self._kernel is not None and rank.registration.kernel == self._kernel:
            self._check_death(rank.key, 0, self._timers.clock())
        self.changed(rank)

    def heard(self, rank: RankRecord) -> None:
        """Note that a rank has said something."""
        now = self._timers.clock()
        # The rank lives: the program has caught the signal that seemed to end it, as some do with their own faults.
        rank.end.signal = None
        self.probes.heard(rank.key, now)
        if self.registry.heard(rank, now):
            self.changed(rank)

    def fell_silent(self, rank: RankRecord) -> None:
        """Note that a rank, if it is connected, does not answer."""
        if rank.is_live and rank.state is not RankState.UNRESPONSIVE:
            self.registry.fell_silent(rank)
            self.changed(rank)

    def found_dead(self, rank: RankRecord) -> None:
        """Note that the process of a lost rank is gone."""
        self.registry.found_dead(rank, self._timers.clock())
        self.changed(rank)

    def note_failure(self, rank: RankRecord) -> None:
        """Note how a rank has ended, and list anew those that were ended since another one of their run had failed."""
        self._explained(self._failures.note(rank, self.registry.ranks))

    def _explained(self, ranks: Iterable[RankRecord]) -> None:
        for rank in ranks:
            self.registry.killed(rank)
            self.listed_anew(rank.key)

    def sweep(self, now: float) -> None:
        """Do what is due by the clock: probes, looks for processes that may be gone, and what is to be forgotten."""
        due = self.probes.due(now)
        for key in due.probe:
            if (link := self.links.get(key)) is not None:
                link.connection.send_packed(PROBE, PROBE_FRAME, "probe")
        for key in due.silent:
            if (rank := self.registry.find(key)) is not None:
                self.fell_silent(rank)
        for key, attempt in self._deaths.due(now):
            self._check_death(key, attempt, now)
        for key in self.registry.expire(now):
            self.forget(key)

    def _check_death(self, key: str, attempt: int, now: float) -> None:
        rank = self.registry.find(key)
        if rank is None or rank.state is not RankState.LOST:
            return
        if is_dead(rank.process.pid):
            self.found_dead(rank)
            self.note_failure(rank)
        else:
            self._deaths.put(key, attempt, now)

    # ------------------------------------------------------------------------------------------------ terminals at it

    def seat_changed(self, decision: Decision) -> None:
        """Tell ranks and terminals what a change of seats means for them."""
        seats = self._relay.seats
        for key in decision.audiences:
            rank = self.registry.find(key)
            if rank is not None:
                self._relay.send(key, seats.audience(key, rank.report.generation), "audience")
                self.probes.attend(key, seats.is_attended(key), self._timers.clock())
                self.listed_anew(key)
        self.send_seats(decision.seats)

    def send_seat(self, number: int) -> None:
        """Send a terminal the seat that it has, and what the rank there has reported."""
        seats = self._relay.seats
        viewer = seats.viewer(number)
        rank = self.registry.find(viewer.key) if viewer else None
        if viewer is None or rank is None:
            return
        seat = Seat(
            rank=self.info(rank),
            report=rank.report,
            generation=seats.generation_of(number),
            driver=seats.driver(viewer.key),
            watchers=seats.watchers(viewer.key),
        )
        self._relay.terminals[number].send_message(seat)

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
                if number in self._relay.terminals:
                    self.send_seat(number)
                yield
        finally:
            # After an error the other terminals get their seats all the same.
            if self._seats_due:
                self._turns.begin(self._sending_seats())

    def missed_output(self, number: int) -> None:
        """Have a terminal that has missed output, and can take some now, see what is on the screen of its rank."""
        viewer = self._relay.seats.viewer(number)
        if viewer is None:
            return
        if self._engine(viewer.key) == LINE_ENGINE:
            # A terminal that is sent its seat asks for what it has missed; the rank may send nothing else for long.
            self.send_seat(number)
        else:
            self.want_repaint(viewer.key)

    def want_repaint(self, key: str) -> None:
        """Ask a rank for its whole screen, now or as soon as its pace allows.

        A line debugger has a log instead; a terminal asks for the part of it that it lacks.
        """
        link = self.links.get(key)
        if link is None or link.repaint_is_due or self._engine(key) == LINE_ENGINE:
            return
        link.repaint_is_due = True
        delay = link.repaints.seconds_until(1, self._timers.clock())
        if delay > 0:
            self._timers.schedule(delay, partial(self._repaint, key, link))
        else:
            self._repaint(key, link)

    def is_redrawn(self, key: str) -> bool:
        """Tell whether the rank's debugger has a screen that it draws anew when asked to."""
        return self._engine(key) not in (None, LINE_ENGINE)

    def _repaint(self, key: str, link: RankLink) -> None:
        link.repaint_is_due = False
        link.repaints.spend(1, self._timers.clock())
        if self.links.get(key) is link:
            link.connection.send_message(Repaint(), "repaint")

    def _engine(self, key: str) -> str | None:
        link = self.links.get(key)
        session = link.rank.report.session if link is not None and link.rank is not None else None
        return session.engine if session is not None else None

    # --------------------------------------------------------------------------------------------------------- guards

    def given_to_guard(self, key: str) -> frozenset[int]:
        """Return the numbers of the questions that the rank's guard carries out, whatever becomes of the rank."""
        guard = self.guards.get(key)
        asks = guard.asks.values() if guard is not None else ()
        return frozenset(ask.request for ask in asks if ask.action in GUARD_ACTIONS)

    def withdraw(self, key: str, number: int) -> None:
        """Have a guard end what it still does for a question that has ended."""
        guard = self.guards.get(key)
        ask = guard.asks.pop(number, None) if guard is not None else None
        if guard is not None and ask is not None and ask.action in GUARD_ACTIONS:
            guard.connection.send_message(ask.replace(withdrawn=True))
