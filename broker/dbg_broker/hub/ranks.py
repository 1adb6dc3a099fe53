"""The state of ranks: their connections and guards, the questions to them, their heartbeats, holds and crashes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import chain

from dbg_broker.feed import Passes
from dbg_broker.hub.links import RankLink
from dbg_broker.net.metrics import Meters
from dbg_broker.net.turns import Turns
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.failures import CrashedRanks, FirstFailures
from dbg_broker.ranks.held_ranks import HeldRanks
from dbg_broker.ranks.liveness import Liveness, ProbeIntervals
from dbg_broker.ranks.questions import OpenQuestions
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_broker.timers import Timers
from dbg_wire.messages import GUARD_ACTIONS, Message, Repaint
from dbg_wire.tables.engines import LINE_ENGINE

REST_SECONDS = 0.05
"""Least seconds between two passes over the ranks that are told of others: one that waits does not notice them."""

REST_SECONDS_EACH = 0.0002
"""Seconds of rest for each rank that was told, twenty times the cost of that: it takes a twentieth of the time."""


class Ranks:
    """All ranks: ``links`` and ``guards`` are the connections, by the ranks' keys."""

    def __init__(
        self,
        timers: Timers,
        turns: Turns,
        meters: Meters,
        *,
        kernel: str | None,
        intervals: ProbeIntervals | None = None,
    ) -> None:
        self._timers, self._meters = timers, meters
        self.links: dict[str, RankLink] = {}
        self.guards: dict[str, RankLink] = {}
        self.registry = Registry()
        self.questions = OpenQuestions()
        self.liveness = Liveness(kernel, intervals or ProbeIntervals())
        self.failures = FirstFailures()
        self.held = HeldRanks(self.registry)
        self.crashed = CrashedRanks()
        self.told = Passes(self._readers, turns.begin, timers, rest=REST_SECONDS, rest_each=REST_SECONDS_EACH)
        """Tells ranks of others that they wait for, and of those of their run that are kept."""

    def send(self, key: str, message: Message, instead_of: Hashable = None) -> bool:
        """Send a message to a rank, if it is connected; return False if a connected rank has no room for it."""
        link = self.links.get(key)
        return link is None or link.connection.send_message(message, instead_of)

    def send_packed(self, key: str, message: Message, frame: bytes, instead_of: Hashable = None) -> None:
        """Send a rank a message that many ranks get, and of which ``frame`` is the form on the wire."""
        link = self.links.get(key)
        if link is not None:
            link.connection.send_packed(message, frame, instead_of)

    def changed(self, rank: RankRecord) -> None:
        """Tell other ranks what a change of this one means for them."""
        is_news = [self.held.changed(rank), self.crashed.changed(rank)]
        if any(is_news):
            self.told.changed()

    def came_back(self, key: str) -> None:
        """Forget what a rank was told of others: it has a new connection."""
        self.held.came_back(key)
        self.crashed.came_back(key)

    def left(self, key: str) -> None:
        """Forget what is known of a rank only while it is connected."""
        del self.links[key]
        self.liveness.probes.remove(key)

    def forget(self, key: str) -> None:
        """Forget a rank that the registry has removed."""
        self.failures.forget(key)
        self.held.forget(key)
        if self.crashed.forget(key):
            self.told.changed()

    def given_to_guard(self, key: str) -> frozenset[int]:
        """Return the numbers of the questions that the rank's guard carries out, whatever becomes of the rank."""
        guard = self.guards.get(key)
        asks = guard.asks.values() if guard is not None else ()
        return frozenset(ask.request for ask in asks if ask.action in GUARD_ACTIONS)

    def answered(self, key: str, number: int) -> None:
        """Note that a question has an answer of a rank or has ended; a guard that works on it ends that."""
        if not self.questions.is_asked(key):
            self.liveness.probes.ask_ended(key)
        guard = self.guards.get(key)
        ask = guard.asks.pop(number, None) if guard is not None else None
        if guard is not None and ask is not None and ask.action in GUARD_ACTIONS:
            guard.connection.send_message(ask.replace(withdrawn=True))

    def want_repaint(self, key: str) -> None:
        """Ask a rank for its whole screen, now or as soon as its pace allows.

        A line debugger has a log instead; a terminal asks for the part of it that it lacks.
        """
        link = self.links.get(key)
        if link is None or link.repaint_is_due or self.has_log(key):
            return
        link.repaint_is_due = True
        delay = link.repaints.seconds_until(1, self._timers.clock())
        if delay > 0:
            self._timers.schedule(delay, partial(self._repaint, key, link))
        else:
            self._repaint(key, link)

    def has_log(self, key: str) -> bool:
        """Tell whether the rank's debugger is one whose output is a log."""
        return self._engine(key) == LINE_ENGINE

    def is_redrawn(self, key: str) -> bool:
        """Tell whether the rank's debugger has a screen that it draws anew when asked to."""
        return self._engine(key) not in (None, LINE_ENGINE)

    def _repaint(self, key: str, link: RankLink) -> None:
        link.repaint_is_due = False
        link.repaints.spend(1, self._timers.clock())
        if self.links.get(key) is link:
            self._meters.repaints += 1
            link.connection.send_message(Repaint(), "repaint")

    def _readers(self) -> Iterator[Callable[[], None]]:
        """Return a call for each rank that is to be told something."""
        for message, keys, name in chain(self.held.news(), self.crashed.news()):
            frame = pack_message(message)
            for key in keys:
                yield partial(self._tell, key, frame, name)

    def _tell(self, key: str, frame: bytes, name: Hashable) -> None:
        """Send a frame that many ranks get; a rank that is behind is told everything later instead."""
        link = self.links.get(key)
        if link is None:
            return
        if name is not None or link.connection.is_ready:
            link.connection.send_control(frame, name)
        else:
            self.held.missed(key)
            self.told.changed()

    def _engine(self, key: str) -> str | None:
        link = self.links.get(key)
        session = link.rank.report.session if link is not None and link.rank is not None else None
        return session.engine if session is not None else None
