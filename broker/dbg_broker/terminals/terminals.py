"""All terminals: who comes, who goes, and which ones are silent."""

from __future__ import annotations

import logging

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.journal.journal import Journal
from dbg_broker.net.capacity import Capacity
from dbg_broker.net.metrics import Meters
from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.asked import Asked
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay.relay import Relay, refuse
from dbg_broker.terminals.link import TerminalLink
from dbg_broker.terminals.notices import Notices
from dbg_wire import limits
from dbg_wire.messages import RefusalCode
from dbg_wire.records.audit import What

LOOK_SECONDS = 1.0
"""Seconds between two looks at the terminals, so that a silence is known within six."""

PING_SECONDS = 2.5
"""Seconds of a terminal's silence after which it is pinged; by itself it pings every two."""

SEAT_SECONDS = 25.0
"""Seconds of a terminal's silence after which its seat is free: it may come back, but others wait for the keyboard."""

ABSENCE_SECONDS = 3.0
"""Seconds between two looks that show that the broker itself, or its host, was suspended."""

logger = logging.getLogger("dbg_broker")


class Terminals:
    """All terminals: ``links`` are their connections by number, ``watchers`` those with a watcher's token."""

    def __init__(
        self,
        relay: Relay,
        journal: Journal,
        table: RankTable,
        asked: Asked,
        *,
        links: dict[int, TerminalLink],
        notices: Notices,
        capacity: Capacity,
        meters: Meters,
        now: float,
    ) -> None:
        self._relay, self._journal, self._table, self._asked = relay, journal, table, asked
        self._notices, self._capacity, self._meters = notices, capacity, meters
        self.links = links
        self.watchers: dict[int, None] = {}
        self._looked_at = now

    # ---------------------------------------------------------------------------------------------- who comes and goes

    def link(self, peer: Peer, bearer: Bearer) -> TerminalLink:
        """Take a terminal's connection; it greets next."""
        link = TerminalLink(peer, bearer, told=None if bearer.job is None else set())
        self.links[peer.number] = link
        self._relay.terminals[peer.number] = peer
        if bearer.role is Role.WATCHER:
            self.watchers[peer.number] = None
        elif len(self.links) > self._capacity.clients and self.watchers:
            self.give_way(next(reversed(self.watchers)), "the broker is full, and a terminal that may type came")
        return link

    def left(self, number: int) -> None:
        """Note that a terminal's connection has ended; an unknown one is no error."""
        link = self.links.pop(number, None)
        if link is None:
            return
        del self._relay.terminals[number]
        self.watchers.pop(number, None)
        if link.name is not None:
            viewer = self._relay.seats.viewer(number)
            self._journal.note(link, What.LEAVE, [] if viewer is None else [viewer.key])
        self._notices.listen(number, wants=False)
        for question in self._asked.questions.of(number):
            self._asked.end(question)
        self._table.seat_changed(self._relay.seats.leave(number))

    def give_way(self, number: int, why: str) -> None:
        """Close a terminal that only looks, since its place is needed."""
        peer = self._relay.terminals[number]
        logger.info("the terminal at %s gives way: %s", peer.peer, why)
        refuse(peer, RefusalCode.FULL, why)
        peer.close(CloseCode.GIVES_WAY, why)
        # Its place is free at once, even if the terminal takes note of the close later.
        self.left(number)

    def close_slow(self, peer: Peer) -> None:
        """Close a terminal that doesn't read; what waits for it is dropped."""
        self._meters.disconnected += 1
        logger.info("the terminal at %s does not keep up and is disconnected", peer.peer)
        peer.close(CloseCode.SLOW, "the terminal did not keep up", flush=False)

    # ------------------------------------------------------------------------------------------------------- silence

    def sweep(self, now: float) -> None:
        """Look at the terminals if that is due; after an absence of the broker they get time to say something."""
        seconds = now - self._looked_at
        if seconds < LOOK_SECONDS:
            return
        self._looked_at = now
        for number, peer in tuple(self._relay.terminals.items()):
            if seconds >= ABSENCE_SECONDS:
                peer.heard_at = max(now, peer.heard_at)
            self._look(number, peer, now - peer.heard_at)

    def _look(self, number: int, peer: Peer, unheard: float) -> None:
        if unheard >= SEAT_SECONDS:
            self._meters.disconnected += 1
            logger.info("the terminal at %s is silent and is disconnected", peer.peer)
            peer.abort()
            return
        if unheard >= PING_SECONDS:
            peer.ping()
        key = self._relay.seats.note_silence(number, unheard >= limits.SILENT_SECONDS)
        if key is not None:
            self._table.listed_anew(key)
