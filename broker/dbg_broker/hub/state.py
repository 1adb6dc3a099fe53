"""The state of the broker: its connections, ranks and terminals, and what concerns more than one of the three.

Nothing here blocks: a frame that a peer can't take is queued or dropped, and later work is done at a sweep or by a
timer. All methods belong to the event loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from dbg_broker.home.bearer import ANY_RANK, Bearer
from dbg_broker.hub.links import RankLink, RankPeer, TerminalLink
from dbg_broker.hub.ranks import Ranks
from dbg_broker.hub.terminals import Terminals
from dbg_broker.journal.journal import Journal
from dbg_broker.net.capacity import Capacity
from dbg_broker.net.metrics import Gauges, Meters
from dbg_broker.net.turns import Turns
from dbg_broker.net.websocket import CloseCode, pack_data
from dbg_broker.ranks.liveness import ProbeIntervals
from dbg_broker.ranks.questions import Said, broker_says
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.seats import Decision
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, Refusal, Welcome
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

logger = logging.getLogger("dbg_broker")


class Hub:
    """The broker's whole state. Functions that need one of its parts are given that part."""

    def __init__(
        self,
        timers: Timers,
        *,
        host: str,
        pid: int,
        kernel: str | None,
        meters: Meters | None = None,
        capacity: Capacity | None = None,
        intervals: ProbeIntervals | None = None,
    ) -> None:
        self.timers = timers
        self.meters = meters or Meters()
        self.capacity = capacity or Capacity()
        self.turns = Turns(timers)
        self.ranks = Ranks(
            timers,
            self.turns,
            self.meters,
            kernel=kernel,
            intervals=intervals,
        )
        self.terminals = Terminals(self.ranks.registry, timers, self.turns)
        self.journal = Journal(self.ranks.registry, timers)
        self.links: dict[int, RankLink | TerminalLink] = {}
        """The links of ranks and of terminals, by the numbers of their connections."""
        self._host, self._pid = host, pid
        self._started = timers.clock()
        self.on_unused: Callable[[], None] | None = None
        """Called when the last rank or terminal has gone; a request for a page is neither."""
        self.max_lease: float | None = None
        """For how many seconds nobody may type at a stop before its rank lets it end."""

    # ---------------------------------------------------------------------------------------------------- connections

    def link_rank(self, peer: RankPeer, bearer: Bearer = ANY_RANK) -> RankLink:
        """Take a connection of an agent, or of what stands in for one, as a rank's link; it registers next."""
        self.links[peer.number] = link = RankLink(peer, bearer=bearer)
        return link

    def link_terminal(self, link: TerminalLink) -> None:
        """Take a terminal's connection; it greets next."""
        self.links[link.number] = self.terminals.links[link.number] = link

    @property
    def is_used(self) -> bool:
        """Tell whether any rank or terminal is there."""
        return bool(self.links)

    def gauges(self) -> Gauges:
        """Return the present numbers."""
        sessions, drivers, watchers = self.terminals.seats.counts()
        return Gauges(
            ranks=self.ranks.registry.counts,
            terminals=len(self.terminals.links),
            sessions=sessions,
            drivers=drivers,
            watchers=watchers,
            uptime=self.timers.clock() - self._started,
        )

    def welcome(
        self,
        connection: RankPeer,
        address: str | None = None,
        child: int | None = None,
        role: str | None = None,
    ) -> None:
        """Accept a peer's first message, or tell a rank its new address."""
        message = Welcome(
            minor=PROTOCOL_MINOR,
            release=RELEASE,
            host=self._host,
            pid=self._pid,
            uptime=round(self.timers.clock() - self._started, 3),
            address=address,
            child=child,
            role=role,
            max_lease=self.max_lease,
        )
        connection.send_message(message)

    # ------------------------------------------------------------------------------------------- ranks with terminals

    def rank_changed(self, rank: RankRecord, *, is_listed_anew: bool = True) -> None:
        """Tell terminals, other ranks, and those outside, what a change of this one means for them."""
        if is_listed_anew:
            self.terminals.listing.changed(rank.key)
        logger.debug("rank %s is %s", printable(rank.key), rank.state.value)
        self.journal.rank_changed(rank)
        self.ranks.changed(rank)

    def readdress(self, renamed: Iterable[RankRecord]) -> None:
        """Tell ranks of this broker that have another number the address that follows from it."""
        for rank in renamed:
            if (link := self.ranks.links.get(rank.key)) is not None:
                self.welcome(link.connection, rank.address, rank.child)
            self.terminals.listing.changed(rank.key)

    def set_listener(self, number: int, *, wants: bool) -> None:
        """Note whether a terminal wants the texts of log points from now on."""
        if wants:
            self.terminals.log_listeners.setdefault(number, 0)
        else:
            self.terminals.log_listeners.pop(number, None)

    def missed_output(self, link: TerminalLink) -> None:
        """Have a terminal that has missed output, and can take some now, see what is on the screen of its rank."""
        viewer = self.terminals.seats.viewer(link.number)
        if viewer is None:
            return
        if self.ranks.has_log(viewer.key):
            # A terminal that is sent its seat asks for what it has missed; the rank may send nothing else for long.
            self.terminals.send_seat(link.number)
        else:
            self.ranks.want_repaint(viewer.key)

    def relay_output(self, key: str, data: bytes) -> None:
        """Pass a frame of terminal bytes to all terminals at a rank, unread; a terminal that is behind misses it."""
        meters = self.meters
        meters.bytes_from_ranks += len(data)
        numbers = self.terminals.seats.viewers(key)
        if not numbers:
            return
        frame = pack_data(data)
        meters.key_waits.key_is_passed_on()
        most = limits.MAX_SCREEN_BACKLOG if self.ranks.is_redrawn(key) else None
        for number in numbers:
            if self.terminals.links[number].connection.send_output(frame, most):
                meters.bytes_to_terminals += len(data)
            else:
                meters.dropped_frames += 1

    def carry_out(self, decision: Decision) -> None:
        """Tell ranks and terminals what a change of seats means for them."""
        for key in decision.audiences:
            rank = self.ranks.registry.find(key)
            if rank is not None:
                audience = self.terminals.seats.audience(key, rank.report.generation)
                self.ranks.send(key, audience, "audience")
                self.update_probe_rate(key)
                self.terminals.listing.changed(key)
        self.terminals.send_seats(decision.seats)

    def update_probe_rate(self, key: str) -> None:
        """Probe a rank more often while a terminal looks at it."""
        self.ranks.liveness.probes.attend(key, self.terminals.seats.is_attended(key), self.timers.clock())

    def answer(self, key: str, number: int, said: Said) -> None:
        """Pass a rank's answer to a question on to the terminal that asked; one that is not waited for is dropped."""
        answered = self.ranks.questions.answered(key, number)
        if answered is None:
            return
        self.ranks.answered(key, number)
        link = self.terminals.links.get(answered.client)
        if link is not None:
            link.answers.add(answered.request, key, said)
            if answered.is_last:
                link.answers.end(answered.request)
            self.terminals.listing.supply_answers(link)

    def rank_ended(self, key: str, text: str, but: Collection[int] = ()) -> None:
        """Tell all who wait for a rank's answers that it is lost; its guard still answers the questions ``but``."""
        said = broker_says(Kind.LOST, text)
        for number, _ in self.ranks.questions.open_about(key):
            if number not in but:
                self.answer(key, number, said)

    def end_question(self, number: int) -> None:
        """End a question that may be open, without the ranks that have not answered."""
        ended = self.ranks.questions.end(number)
        if ended is None:
            return
        link = self.terminals.links.get(ended.client)
        if link is not None:
            link.answers.end(ended.question.request)
            self.terminals.listing.supply_answers(link)
        self.turns.begin(self._withdrawing(number, ended.missing))

    def _withdrawing(self, number: int, keys: Iterable[str]) -> Iterator[None]:
        for key in keys:
            self.ranks.answered(key, number)
            yield


def refuse(connection: RankPeer, code: str, text: str, request: int | None = None) -> None:
    """Tell a peer which request can't be done and why; a peer that reads no refusals is closed."""
    if not connection.send_message(Refusal(code=code, text=printable(text, 500), request=request)):
        connection.close(CloseCode.SLOW, "it does not read why its requests are refused", flush=False)
