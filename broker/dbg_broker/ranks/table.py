"""Table of ranks: the record, connection and liveness of each rank, and the followers of its changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from dbg_broker.feed import Passes
from dbg_broker.net.outbox import Turns
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.failures import CrashedRanks, FirstFailures
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.liveness import DeathChecks, ProbeIntervals, ProbeSchedule, is_dead
from dbg_broker.ranks.rank_record import RankLink, RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.ranks.remote_ranks import RankFact, RemoteRanks
from dbg_broker.relay.relay import Relay, refuse
from dbg_broker.relay.seats import Decision
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_wire.errors import printable
from dbg_wire.messages import GUARD_ACTIONS, Notice, Probe, RefusalCode, Repaint, Seat
from dbg_wire.records.ranks import LINE_ENGINE, RankInfo, RankState

SEATS_AT_ONCE = 4
"""Maximum number of terminals that are sent their seats at once: each message may contain half a MiB of breakpoints."""

REST_SECONDS = 0.05
"""Minimum pause, in seconds, between two passes that inform ranks about other ranks. A pause this short does not matter
to a rank that waits.
"""

REST_SECONDS_EACH = 0.0002
"""Additional pause for each informed rank, in seconds: 20 times the cost of an update, so that all updates use at most
1/20 of the broker's time.
"""

PROBE = Probe()
PROBE_FRAME = pack_message(PROBE)

logger = logging.getLogger("dbg_broker")


class Watcher:
    """Follower of the ranks' changes, not a terminal that watches. Each method does nothing unless it is overridden."""

    def rank_changed(self, rank: RankRecord) -> None:
        """Handle a report of a rank, or its end."""

    def line_changed(self, key: str) -> None:
        """Handle a change or removal of a rank's line in the list."""

    def rank_gone(self, key: str) -> None:
        """Forget a rank that is no longer listed."""

    def logged(self, rank: RankRecord, notice: Notice) -> None:
        """Handle the text of a log point at a rank."""


class RankTable:
    """All ranks. ``links`` are their connections, and ``guards`` their guards' connections, both by the rank's key."""

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
        """Create an empty table; ``kernel`` is the name of this host's kernel."""
        self._timers, self._turns, self._relay, self._welcomes = timers, turns, relay, welcomes
        self._kernel = kernel
        self.registry = Registry()
        self.links: dict[str, RankLink] = {}
        self.guards: dict[str, RankLink] = {}
        self.probes = ProbeSchedule(intervals or ProbeIntervals())
        self._deaths = DeathChecks()
        self._failures = FirstFailures()
        self.elsewhere = RemoteRanks()
        self._held = HeldRanks(self.registry, self.elsewhere)
        self._crashed = CrashedRanks()
        self._passes = Passes(self._readers, turns.start, timers, rest=REST_SECONDS, rest_each=REST_SECONDS_EACH)
        """Sends ranks the states of ranks that they wait for, and which ranks of their run are kept."""
        self._watchers: list[Watcher] = []
        self._seats_due: dict[int, None] = {}

    def add_watcher(self, watcher: Watcher) -> None:
        """Register a follower of the ranks."""
        self._watchers.append(watcher)

    def info(self, rank: RankRecord) -> RankInfo:
        """Return a rank as it is listed."""
        # ``began`` is not stored, because the wall clock may be set, and it continues while the host sleeps.
        began = self._timers.wall() - self._timers.clock()
        return rank.info(began=began, seats=self._relay.seats.counts_at(rank.key))

    # ---------------------------------------------------------------------------------------------------------- changes

    def changed(self, rank: RankRecord, *, is_listed_anew: bool = True) -> None:
        """Notify all followers of a change of a rank, and other ranks of the consequences for them."""
        logger.debug("rank %s is %s", printable(rank.key), rank.state.value)
        if is_listed_anew:
            self.line_changed(rank.key)
        for watcher in self._watchers:
            watcher.rank_changed(rank)
        if not self.elsewhere.has(rank):
            self._schedule_news(self._held.changed(rank), self._crashed.changed(rank))

    def hear(self, fact: RankFact) -> None:
        """Notify ranks of the consequences of a fact about a rank at another broker."""
        kept = fact.number if fact.is_kept else None
        self._schedule_news(self._held.hear(fact), self._crashed.hear(fact.launch, fact.key, kept))
        if fact.failure:
            self._explained(self._failures.hear(fact.launch, fact.key, fact.left, fact.failure, self.registry.ranks))

    def forget_fact(self, broker: str, key: str) -> None:
        """Forget the fact that another broker sent about a rank."""
        if self.elsewhere.drop(broker, key) and self.registry.find(key) is None:
            self._forget(key)

    def take_over(self, rank: RankRecord) -> None:
        """List an ended or lost rank of a broker that shuts down, if the rank is unknown here.

        Its end is not an event here, because that broker has already reported it.
        """
        renamed = self.registry.take_over(rank, self._timers.clock())
        if renamed is not None:
            self.readdress(renamed)
            self.line_changed(rank.key)
            self._schedule_news(self._held.changed(rank), self._crashed.changed(rank))
            self.note_failure(rank)

    def _schedule_news(self, *is_news: bool) -> None:
        if any(is_news):
            self._passes.changed()

    def broke_in(self, key: str, *, is_pending: bool) -> None:
        """Record that a rank was interrupted and will stop later (``is_pending``), or that no interrupt is pending."""
        rank = self.registry.find(key)
        will_stop = is_pending and rank is not None and not rank.halted
        if rank is not None and rank.will_stop != will_stop:
            rank.will_stop = will_stop
            self.line_changed(key)

    def line_changed(self, key: str) -> None:
        """Notify all followers that the line of a rank in the list has changed."""
        for watcher in self._watchers:
            watcher.line_changed(key)

    def logged(self, rank: RankRecord, notice: Notice) -> None:
        """Pass the text of a log point to all followers."""
        for watcher in self._watchers:
            watcher.logged(rank, notice)

    def forget(self, key: str, why: str = "the rank ended long ago and is no longer listed") -> None:
        """Forget a rank that the registry has removed, and notify its terminals."""
        self.line_changed(key)
        for watcher in self._watchers:
            watcher.rank_gone(key)
        self._forget(key)
        for number in self._relay.seats.rank_gone(key):
            refuse(self._relay.terminals[number], RefusalCode.GONE, why)

    def _forget(self, key: str) -> None:
        self._failures.forget(key)
        self._held.forget(key)
        self._schedule_news(self._crashed.forget(key))

    def readdress(self, renamed: Iterable[RankRecord]) -> None:
        """Send new addresses to ranks whose number has changed."""
        for rank in renamed:
            if (link := self.links.get(rank.key)) is not None:
                self._welcomes.send(link.connection, rank.address, rank.child)
            self.line_changed(rank.key)

    def _readers(self) -> Iterator[Callable[[], None]]:
        """Yield a function for each rank that needs an update; the function sends the update."""
        for message, keys, name in chain(self._held.news(), self._crashed.news()):
            frame = pack_message(message)
            for key in keys or ("",):
                yield partial(self._send_to_follower, key, frame, name)

    def _send_to_follower(self, key: str, frame: bytes, name: Hashable) -> None:
        """Send a frame that many ranks get. A rank whose connection is not ready gets the whole state later instead."""
        link = self.links.get(key)
        if link is None:
            return
        if name is not None or link.connection.is_ready:
            link.connection.send_control(frame, name)
        else:
            self._held.missed(key)
            self._passes.changed()

    # ------------------------------------------------------------------------------------------------------ connections

    def came(self, link: RankLink, rank: RankRecord) -> None:
        """Assign a connection to a rank that has just registered."""
        link.rank = rank
        self.links[rank.key] = link
        self._relay.ranks[rank.key] = link.connection
        self.probes.add(rank.key, self._timers.clock())
        self._held.reconnected(rank.key)
        self._crashed.reconnected(rank.key)

    def left(self, rank: RankRecord) -> None:
        """Record that a rank's connection has ended."""
        del self.links[rank.key], self._relay.ranks[rank.key]
        self.probes.remove(rank.key)
        self.disconnected(rank)

    def disconnected(self, rank: RankRecord) -> None:
        """Record that a rank is not connected any more. An ended rank does not change."""
        if rank.state is RankState.EXITED:
            return
        self.registry.disconnected(rank, self._timers.clock())
        if rank.state is RankState.LOST and self._kernel is not None and rank.registration.kernel == self._kernel:
            self._check_death(rank.key, 0, self._timers.clock())
        self.changed(rank)

    def heard(self, rank: RankRecord) -> None:
        """Record that a rank sent a message."""
        now = self._timers.clock()
        # The rank is alive: the program caught the signal that seemed to end it. Some programs catch their own faults.
        rank.end.signal = None
        self.probes.heard(rank.key, now)
        if self.registry.heard(rank, now):
            self.changed(rank)

    def fell_silent(self, rank: RankRecord) -> None:
        """Record that a rank does not answer, if it is connected."""
        if rank.is_live and rank.state is not RankState.UNRESPONSIVE:
            self.registry.fell_silent(rank)
            self.changed(rank)

    def found_dead(self, rank: RankRecord) -> None:
        """Record that the process of a lost rank is gone."""
        self.registry.found_dead(rank, self._timers.clock())
        self.changed(rank)

    def note_failure(self, rank: RankRecord) -> None:
        """Record how a rank ended, and update the lines of ranks that ended because another rank of the run failed."""
        self._explained(self._failures.note(rank, self.registry.ranks))

    def _explained(self, ranks: Iterable[RankRecord]) -> None:
        for rank in ranks:
            self.registry.killed(rank)
            self.line_changed(rank.key)

    def sweep(self, now: float) -> None:
        """Do everything that is due: send probes, check for dead processes, and forget old ranks."""
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

    # ----------------------------------------------------------------------------------------------- terminals at ranks

    def seat_changed(self, decision: Decision) -> None:
        """Notify ranks and terminals of a change of seats."""
        seats = self._relay.seats
        for key in decision.audiences:
            rank = self.registry.find(key)
            if rank is not None:
                self._relay.send(key, seats.viewers_message(key, rank.report.generation), "viewers")
                self.probes.attend(key, seats.is_attended(key), self._timers.clock())
                self.line_changed(key)
        self.send_seats(decision.seats)

    def send_seat(self, number: int) -> None:
        """Send a terminal its seat, and the latest report of the rank there."""
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
        """Send terminals their seats, the first SEATS_AT_ONCE at once and the others in slices."""
        for number in numbers[:SEATS_AT_ONCE]:
            self.send_seat(number)
        if len(numbers) > SEATS_AT_ONCE:
            are_sent = bool(self._seats_due)
            self._seats_due.update(dict.fromkeys(numbers[SEATS_AT_ONCE:]))
            if not are_sent:
                self._turns.start(self._sending_seats())

    def _sending_seats(self) -> Iterator[None]:
        try:
            while self._seats_due:
                number = next(iter(self._seats_due))
                del self._seats_due[number]
                if number in self._relay.terminals:
                    self.send_seat(number)
                yield
        finally:
            # If sending one seat fails, the other terminals still get theirs.
            if self._seats_due:
                self._turns.start(self._sending_seats())

    def missed_output(self, number: int) -> None:
        """Refresh a terminal that has missed output and can receive again, so that it shows the screen of its rank."""
        viewer = self._relay.seats.viewer(number)
        if viewer is None:
            return
        if self._engine(viewer.key) == LINE_ENGINE:
            # When a terminal gets a seat, it requests the output that it missed. Without a new seat the terminal would
            # notice the gap only at the next output, which may be late.
            self.send_seat(number)
        else:
            self.want_repaint(viewer.key)

    def want_repaint(self, key: str) -> None:
        """Request the whole screen of a rank, now or as soon as the rate limit allows.

        Do nothing for a line debugger, which has a log in place of a screen: a terminal requests the part that it
        missed.
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
        """Return True if the rank's debugger has a screen that it can redraw on request."""
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
        """Return the numbers of the questions that the rank's guard executes even if the rank ends."""
        guard = self.guards.get(key)
        asks = guard.asks.values() if guard is not None else ()
        return frozenset(ask.request for ask in asks if ask.action in GUARD_ACTIONS)

    def withdraw(self, key: str, number: int) -> None:
        """Cancel the guard's work for a question that has ended."""
        guard = self.guards.get(key)
        ask = guard.asks.pop(number, None) if guard is not None else None
        if guard is not None and ask is not None and ask.action in GUARD_ACTIONS:
            guard.connection.send_message(ask.replace(withdrawn=True))
