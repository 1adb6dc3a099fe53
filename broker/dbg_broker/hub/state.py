"""What the broker knows of ranks and terminals, and how messages are sent to them.

Nothing here blocks: a frame that a peer can't take is queued or dropped, and later work is done at a sweep or by a
timer. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from functools import partial

from dbg_broker.audit.entries import Entry
from dbg_broker.events.occasions import Occasions
from dbg_broker.home.bearer import ANY_RANK, Bearer
from dbg_broker.hub import close_codes
from dbg_broker.hub.links import NOBODY, RankLink, RankPeer, TerminalLink, Unread
from dbg_broker.hub.listing import Listing
from dbg_broker.hub.recorded import RecordedStops
from dbg_broker.net.arrivals import Arrivals
from dbg_broker.net.capacity import Capacity
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.entrance import Entrance
from dbg_broker.net.frames import pack_data, pack_message
from dbg_broker.net.loop_times import LoopTimes
from dbg_broker.net.metrics import Gauges, Meters
from dbg_broker.net.rank_places import RankPlaces
from dbg_broker.net.rate import RateLimit
from dbg_broker.net.spare import SpareDescriptors, SpareMemory
from dbg_broker.net.standings import Standings
from dbg_broker.net.turns import Turns
from dbg_broker.net.unfinished import Unfinished
from dbg_broker.ranks.ask_rates import AskRates
from dbg_broker.ranks.crashes import CrashedRanks
from dbg_broker.ranks.death_checks import DeathChecks
from dbg_broker.ranks.first_failures import FirstFailures
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.host_looks import HostLooks
from dbg_broker.ranks.live_bytes import LiveBytes
from dbg_broker.ranks.probe_schedule import ProbeIntervals, ProbeSchedule
from dbg_broker.ranks.questions import Finished, OpenQuestions
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.ranks.spread import Spread
from dbg_broker.terminals.glances import Glances
from dbg_broker.terminals.log_listeners import LogListeners
from dbg_broker.terminals.seats import Decision, Seats
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.messages import GUARD_ACTIONS, Message, Refusal, Repaint, Seat, Welcome
from dbg_wire.tables.engines import LINE_ENGINE
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

logger = logging.getLogger("dbg_broker")

SEATS_AT_ONCE = 4
"""Seats that are sent at once, that of the terminal that asked first: each may carry half a MiB of breakpoints."""

Dial = Callable[[int, str, int], None]
"""Connect to a stock debugger for the terminal of this number, at this host and port."""


class Hub:
    """The broker's whole state, and the sending of messages."""

    def __init__(
        self,
        *,
        host: str,
        pid: int,
        kernel: str | None,
        clock: Callable[[], float],
        schedule: Callable[[float, Callable[[], None]], object],
        intervals: ProbeIntervals | None = None,
        capacity: Capacity | None = None,
        times: LoopTimes | None = None,
        memory: SpareMemory | None = None,
    ) -> None:
        self.kernel = kernel
        self.clock, self.schedule, self.capacity = clock, schedule, capacity or Capacity()
        self.descriptors, self.memory = SpareDescriptors(clock), memory or SpareMemory(clock)
        self.meters = Meters()
        self.times = times or LoopTimes(clock, time.thread_time)
        self._host, self._pid = host, pid
        self._started = clock()
        self._certificate_ends: float | None = None
        # Connections: those without a first message, then links of ranks and of terminals by their numbers.
        self.arrivals: Arrivals[PeerConnection] = Arrivals(self.capacity, lambda: self.lacks)
        self.unfinished = Unfinished()
        self.rank_places = RankPlaces(self.capacity.ranks)
        self.turns = Turns(time.thread_time, schedule)
        self.links: dict[int, RankLink | TerminalLink] = {}
        self.terminals: dict[int, TerminalLink] = {}
        self.watchers: dict[int, None] = {}
        self.ranks: dict[str, RankLink] = {}
        self.guards: dict[str, RankLink] = {}
        self.on_empty: Callable[[], None] | None = None
        self.on_unused: Callable[[], None] | None = None
        """Called when the last rank or terminal has gone; a request for a page is neither."""
        self.dial: Dial | None = None
        self.audit: Callable[[Entry], None] | None = None
        """Writes an entry of the audit log; it does not block."""
        self.audits_input = False
        self.occasions: Occasions | None = None
        """Takes what may be an event for the command of ``--on-event``; None without one."""
        self.max_lease: float | None = None
        """For how many seconds nobody may type at a stop before its rank lets it end."""
        # What is known of ranks, asked of them, and told to them.
        self.registry = Registry()
        self.questions = OpenQuestions(lambda: self.memory.lack.why)
        self.glances = Glances()
        self.ask_rates = AskRates()
        self.live_bytes = LiveBytes()
        self.probe_schedule = ProbeSchedule(intervals or ProbeIntervals())
        self.host_looks = HostLooks()
        self.silent: set[str] = set()
        self.death_checks = DeathChecks()
        self.first_failures = FirstFailures()
        self.held_ranks = HeldRanks(self.registry)
        self.crashed_ranks = CrashedRanks()
        self.spread = Spread((self.held_ranks, self.crashed_ranks), pack_message, self._tell_frame, clock, schedule)
        # The seats of terminals, and what is sent to terminals.
        self.seats = Seats()
        self._seats_due: dict[int, None] = {}
        self.log_listeners = LogListeners()
        self.recorded = RecordedStops(self.seats, self.terminals)
        self.listing = Listing(
            self.registry,
            self.seats,
            self.terminals,
            self.questions,
            clock=clock,
            schedule=schedule,
            begin=self.turns.begin,
        )
        self.entrance = Entrance(time.thread_time, schedule)
        self.standings = Standings()

    # ---------------------------------------------------------------------------------------------------- connections

    def link_rank(self, peer: RankPeer, prefix: str = "", bearer: Bearer = ANY_RANK) -> RankLink:
        """Take a connection of an agent, or of what stands in for one, as a rank's link; it registers next."""
        rate = RateLimit(self.clock(), limits.MAX_REPORTED_PER_SECOND)
        self.links[peer.number] = link = RankLink(peer, rate, prefix=prefix, bearer=bearer)
        return link

    @property
    def lacks(self) -> str:
        """Return what the broker lacks to take newcomers, as a sentence; empty if it has enough."""
        return self.descriptors.lack.why or self.memory.lack.why

    @property
    def is_used(self) -> bool:
        """Tell whether any rank or terminal is there."""
        return bool(self.links)

    @property
    def connected(self) -> int:
        """Return how many connections there are, those without a first message included."""
        return len(self.links.keys() | self.arrivals.numbers())

    def gauges(self) -> Gauges:
        """Return the present numbers."""
        sessions, drivers, watchers = self.seats.counts()
        return Gauges(
            ranks=self.registry.counts,
            terminals=len(self.terminals),
            sessions=sessions,
            drivers=drivers,
            watchers=watchers,
            pending=len(self.arrivals),
            uptime=self.clock() - self._started,
            certificate_expires=None if self._certificate_ends is None else self._certificate_ends - time.time(),
            recorded=self.recorded.figures(),
        )

    def certificate_told(self, ends: float) -> None:
        """Take note of the end of the broker's certificate, in seconds since the epoch."""
        self._certificate_ends = ends

    # -------------------------------------------------------------------------------------------------------- sending

    def welcome(
        self, connection: RankPeer, address: str | None = None, child: int | None = None, role: str | None = None
    ) -> None:
        """Accept a peer's first message, or tell a rank its new address."""
        self.arrivals.leave(connection.number)
        message = Welcome(
            minor=PROTOCOL_MINOR,
            release=RELEASE,
            host=self._host,
            pid=self._pid,
            uptime=round(self.clock() - self._started, 3),
            address=address,
            child=child,
            role=role,
            max_lease=self.max_lease,
        )
        connection.send_message(message)

    def refuse(self, connection: RankPeer, code: str, text: str, request: int | None = None) -> None:
        """Tell a peer which request can't be done and why; a peer that reads no refusals is closed."""
        if not connection.send_message(Refusal(code=code, text=printable(text, 500), request=request)):
            connection.close(close_codes.SLOW, "it does not read why its requests are refused", flush=False)

    def tell_rank(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to a rank, if it is connected."""
        link = self.ranks.get(key)
        if link is not None:
            link.connection.send_message(message, instead_of)

    def tell_rank_frame(self, key: str, message: Message, frame: bytes, instead_of: Hashable = None) -> None:
        """Send a rank a message that many ranks get, and of which ``frame`` is the form on the wire."""
        link = self.ranks.get(key)
        if link is not None and isinstance(link.connection, PeerConnection):
            link.connection.send_packed(message, frame, instead_of)
        elif link is not None:
            link.connection.send_message(message, instead_of)

    def given_to_guard(self, key: str) -> frozenset[int]:
        """Return the numbers of the questions that the rank's guard carries out, whatever becomes of the rank."""
        guard = self.guards.get(key)
        asks = guard.asks.values() if guard is not None else ()
        return frozenset(ask.request for ask in asks if ask.action in GUARD_ACTIONS)

    def rank_changed(self, rank: RankRecord) -> None:
        """Tell other ranks what a change of this one means for them."""
        logger.debug("rank %s is %s", printable(rank.key), rank.state.value)
        self.recorded.changed(rank)
        if self.occasions is not None:
            self.occasions.rank_changed(rank)
        is_news = [self.held_ranks.changed(rank), self.crashed_ranks.changed(rank)]
        if any(is_news):
            self.spread.changed()

    def tell_terminals(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to all terminals at a rank."""
        numbers = self.seats.viewers(key)
        if numbers:
            frame = pack_message(message)
            for number in numbers:
                self.terminals[number].connection.send_control(frame, instead_of)

    def relay_output(self, key: str, data: bytes) -> None:
        """Pass a frame of terminal bytes to all terminals at a rank, unread; a terminal that is behind misses it."""
        self.meters.bytes_from_ranks += len(data)
        numbers = self.seats.viewers(key)
        if not numbers:
            return
        frame = pack_data(data)
        self.times.key_is_passed_on()
        most = limits.MAX_SCREEN_BACKLOG if self.is_redrawn(key) else None
        for number in numbers:
            if self.terminals[number].connection.send_output(frame, most):
                self.meters.bytes_to_terminals += len(data)
            else:
                self.meters.dropped_frames += 1
        self.recorded.shown(key, data, numbers)

    def want_repaint(self, key: str) -> None:
        """Ask a rank for its whole screen, now or as soon as its pace allows.

        A line debugger has a log instead; a terminal asks for the part of it that it lacks.
        """
        link = self.ranks.get(key)
        if link is None or self.has_log(key):
            return
        delay = link.repaints.want(self.clock())
        if delay == 0.0:
            self._repaint(key, link)
        elif delay is not None:
            self.schedule(delay, partial(self._repaint, key, link))

    def slow_down(self, link: TerminalLink, cost: int) -> None:
        """Count what a request costs beside its own bytes; beyond its rate a terminal is read later."""
        seconds = link.rate.spend(cost, self.clock())
        if seconds > 0:
            link.connection.rest(seconds)

    def carry_out(self, decision: Decision) -> None:
        """Tell ranks and terminals what a change of seats means for them."""
        for key in decision.audiences:
            rank = self.registry.find(key)
            if rank is not None:
                audience = self.seats.audience(key, rank.report.generation)
                self.tell_rank(key, audience, "audience")
                self.attend(key)
                self.listing.changed(key)
                self.recorded.seated(key)
        for number in decision.seats[:SEATS_AT_ONCE]:
            self.send_seat(number)
        if len(decision.seats) > SEATS_AT_ONCE:
            are_sent = bool(self._seats_due)
            self._seats_due.update(dict.fromkeys(decision.seats[SEATS_AT_ONCE:]))
            if not are_sent:
                self.turns.begin(self._send_seats(), NOBODY)

    def _send_seats(self) -> Iterator[None]:
        while self._seats_due:
            number = next(iter(self._seats_due))
            del self._seats_due[number]
            if number in self.terminals:
                self.send_seat(number)
            yield

    def attend(self, key: str) -> None:
        """Probe a rank as often as it is looked at."""
        self.probe_schedule.attend(key, self.seats.is_attended(key), self.clock())

    def answered(self, key: str) -> None:
        """Note that a question to a rank has an answer or has ended; it was probed for the last one."""
        if not self.questions.is_asked(key):
            self.probe_schedule.ask_ended(key)

    def deliver(self, finished: Finished) -> None:
        """Send the answers to a question to the terminal that asked, as it can take them."""
        link = self.terminals.get(finished.client)
        if link is not None:
            link.answers.append(Unread(finished, finished.pages()))
            self.listing.supply(link)
        self.turns.begin(self._leave_alone(finished), NOBODY if link is None else link.share)

    def send_seat(self, number: int) -> None:
        viewer = self.seats.viewer(number)
        rank = self.registry.find(viewer.key) if viewer else None
        if viewer is None or rank is None:
            return
        seat = Seat(
            rank=self.listing.info(rank),
            report=rank.report,
            generation=self.seats.generation_of(number),
            driver=self.seats.driver(viewer.key),
            watchers=self.seats.watchers(viewer.key),
        )
        self.terminals[number].connection.send_message(seat)

    def _repaint(self, key: str, link: RankLink) -> None:
        link.repaints.sent(self.clock())
        if self.ranks.get(key) is link:
            self.meters.repaints += 1
            link.connection.send_message(Repaint(), "repaint")

    # ---------------------------------------------------------------------------------------------------------- inner

    def _withdraw(self, key: str, number: int) -> None:
        """Have a guard end what it still does for a question that has ended."""
        guard = self.guards.get(key)
        ask = guard.asks.pop(number, None) if guard is not None else None
        if guard is not None and ask is not None and ask.action in GUARD_ACTIONS:
            guard.connection.send_message(ask.replace(withdrawn=True))

    def _leave_alone(self, finished: Finished) -> Iterator[None]:
        """Note for all ranks of a question that it has ended."""
        for key in finished.question.keys:
            self.answered(key)
            self._withdraw(key, finished.number)
            yield

    def _tell_frame(self, frame: bytes, key: str, name: Hashable) -> None:
        """Send a frame that many ranks get; a rank that is behind is told everything later instead."""
        link = self.ranks.get(key)
        if link is None or not isinstance(link.connection, PeerConnection):
            # The rank is gone, or is a stock session, which never waits for other ranks.
            return
        if name is not None or link.connection.is_ready:
            link.connection.send_control(frame, name)
        else:
            self.held_ranks.missed(key)

    def has_log(self, key: str) -> bool:
        """Tell whether the rank's debugger is one whose output is a log."""
        return self._engine(key) == LINE_ENGINE

    def is_redrawn(self, key: str) -> bool:
        """Tell whether the rank's debugger has a screen that it draws anew when asked to."""
        return self._engine(key) not in (None, LINE_ENGINE)

    def _engine(self, key: str) -> str | None:
        link = self.ranks.get(key)
        session = link.rank.report.session if link is not None and link.rank is not None else None
        return session.engine if session is not None else None
