"""The owner's side of legs: terminals of other brokers at ranks of this one.

A remote terminal stands where the connection of an own one would: what its terminal says goes through the same code,
and what is sent to it waits in an outbox with the same policy. A credit window bounds the bytes on their way, so that
a slow terminal, or a slow broker, fills its own outbox alone.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Hashable
from itertools import count
from typing import TYPE_CHECKING

from dbg_broker.home.bearer import Bearer
from dbg_broker.hub import departures
from dbg_broker.hub.cluster.messages import (
    CloseLeg,
    LegFrame,
    LegRest,
    LegSaid,
    LegSilent,
    LegTaken,
    OpenLeg,
)
from dbg_broker.hub.links import TerminalLink
from dbg_broker.net.outbox import Outbox
from dbg_broker.net.websocket import CloseCode, is_data, pack_message, payload_of
from dbg_broker.quotas import TokenBucket
from dbg_wire import limits
from dbg_wire.codec import LogForm
from dbg_wire.errors import printable
from dbg_wire.messages import Message

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.cluster import Cluster
    from dbg_broker.hub.state import Hub

logger = logging.getLogger("dbg_broker")

WINDOW_BYTES = limits.MAX_SCREEN_BACKLOG
"""Bytes of one leg that may be on their way: as many as may wait for a terminal of which a screen is not of old."""

MAX_LEGS = 2 * limits.MAX_CLIENTS
"""Legs of one broker: one for each of its terminals, and those that are about to end."""

FIRST_NUMBER = 1 << 48
"""The first number of a leg among the connections: no server accepts so many, and stock debuggers count below 0."""


class RemoteTerminal:
    """The channel to a terminal of another broker, and the credit window of its leg.

    It takes frames of its own outbox while fewer than WINDOW_BYTES are on their way.
    """

    def __init__(self, number: int, opened: OpenLeg, broker: str, owner: HostedLegs, now: float) -> None:
        self.number = number
        self.peer = opened.peer
        self.heard_at = now
        self.leg, self.broker = opened.leg, broker
        self.is_silent = False
        """Whether its broker hears nothing of it."""
        self.is_closing = False
        self._owner = owner
        self._under_way = 0
        self._outbox = Outbox(now)
        self._outbox.transport = self

    @property
    def _is_full(self) -> bool:
        return self._under_way >= WINDOW_BYTES

    @property
    def buffered(self) -> int:
        """Return how many bytes are on their way: none that could wait elsewhere, as long as it takes more."""
        return self._under_way if self._is_full else 0

    def write(self, data: bytes) -> None:
        """Send a frame of the outbox."""
        self._under_way += len(data)
        if self._is_full:
            self._outbox.is_paused = True
        self._owner.send(self.broker, LegFrame(leg=self.leg, frame=data))

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""
        return not self.is_closing and self._outbox.is_free

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message as :meth:`send_control` does."""
        logger.debug("leg %d is told %s", self.number, LogForm(message))
        return self.send_control(pack_message(message), instead_of)

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; False if it has no room, and the terminal is closed then."""
        if self.is_closing:
            return False
        if self._outbox.send_control(frame, instead_of):
            return True
        self._owner.overflowed(self)
        return False

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait beside no more than ``most`` bytes; False if it was dropped."""
        return not self.is_closing and self._outbox.send_output(frame, most)

    def missed_output(self) -> bool:
        """Tell, once, that output was dropped and the terminal can take a repaint."""
        return self.is_ready and self._outbox.missed()

    def is_stalled(self, now: float, seconds: float) -> bool:
        """Tell whether the terminal has taken nothing for ``seconds`` although things wait."""
        return not self.is_closing and self._outbox.is_stalled(now, seconds)

    def ping(self) -> None:
        """Do nothing: the terminal's own broker asks it for signs of life, and tells when there are none."""

    def rest(self, seconds: float) -> None:
        """Have nothing read of the terminal for a while."""
        self._owner.send(self.broker, LegRest(leg=self.leg, seconds=min(seconds, limits.MAX_ASK_SECONDS)))

    def taken(self, size: int) -> bool:
        """Take credit back, and send what waits; tell whether nothing waits any more."""
        self._under_way = max(0, self._under_way - size)
        if self.is_closing or self._is_full:
            return False
        self._outbox.is_paused = False
        self._outbox.pump()
        return self.is_ready

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """End the leg, and the terminal with it; what waits goes out before, unless ``flush`` is False."""
        if self.is_closing:
            return
        if flush:
            self._outbox.flush()
        self._outbox.clear()
        self.is_closing = True
        self._owner.closed(self, code, reason)

    def abort(self) -> None:
        """End the leg at once."""
        self.close(CloseCode.SHUTDOWN, "its rank's broker has ended the way to it", flush=False)


class HostedLegs:
    """The legs of other brokers' terminals to ranks of this broker."""

    def __init__(self, hub: Hub, cluster: Cluster) -> None:
        self._hub, self._cluster = hub, cluster
        self._legs: defaultdict[str, dict[int, RemoteTerminal]] = defaultdict(dict)
        """The legs of each broker, by its numbers."""
        self._numbers = count(FIRST_NUMBER)
        cluster.on(OpenLeg, self._open)
        cluster.on(LegSaid, self._said)
        cluster.on(LegTaken, self._taken)
        cluster.on(LegSilent, self._silent)

    def __len__(self) -> int:
        return sum(map(len, self._legs.values()))

    def send(self, broker: str, message: LegFrame | LegRest | CloseLeg) -> bool:
        """Send a terminal's broker a message; what is lost is made good when the leg is opened anew."""
        return self._cluster.send(broker, message)

    # ----------------------------------------------------------------------------------------------------- what is said

    def _open(self, sender: str, message: OpenLeg) -> None:
        hub = self._hub
        if message.leg in self._legs[sender] or len(self._legs[sender]) >= MAX_LEGS:
            why = "the rank's broker takes no more terminals of this one"
            self.send(sender, CloseLeg(leg=message.leg, by_terminal=False, code=CloseCode.SHUTDOWN, reason=why))
            return
        now = hub.timers.clock()
        terminal = RemoteTerminal(next(self._numbers), message, sender, self, now)
        bearer = Bearer(role=message.role, digest=message.digest, name=message.token, job=message.job)
        rate = TokenBucket(now, limits.MAX_INPUT_PER_SECOND)
        self._legs[sender][message.leg] = terminal
        hub.link_terminal(TerminalLink(terminal, bearer, rate, name=message.name, broker=sender))

    def _said(self, sender: str, message: LegSaid) -> None:
        terminal, handlers = self._legs[sender].get(message.leg), self._hub.connections.handlers
        if terminal is None:
            why = "its rank's broker does not know it"
            self.send(sender, CloseLeg(leg=message.leg, by_terminal=False, code=CloseCode.SHUTDOWN, reason=why))
        elif is_data(message.frame):
            handlers.data(terminal, payload_of(message.frame))
        else:
            handlers.text(terminal, payload_of(message.frame).decode("utf-8", "replace"))

    def _taken(self, sender: str, message: LegTaken) -> None:
        terminal = self._legs[sender].get(message.leg)
        if terminal is None:
            return
        is_ready = terminal.taken(message.count)
        if message.missed:
            self._hub.missed_output(self._hub.terminals.links[terminal.number])
        if is_ready:
            self._hub.connections.handlers.drained(terminal)

    def _silent(self, sender: str, message: LegSilent) -> None:
        terminal = self._legs[sender].get(message.leg)
        if terminal is not None:
            terminal.is_silent = message.seconds > 0
            terminal.heard_at = self._hub.timers.clock() - message.seconds

    # ---------------------------------------------------------------------------------------------------------- its end

    def ended(self, sender: str, message: CloseLeg) -> None:
        """Forget a leg that its terminal's broker has ended."""
        terminal = self._legs[sender].get(message.leg)
        if terminal is not None:
            self._drop(terminal)
            self._forget(terminal)

    def closed(self, terminal: RemoteTerminal, code: int, reason: str) -> None:
        """Tell a terminal's broker that its leg is closed from here, and forget it when all that goes on is done."""
        self._drop(terminal)
        said = printable(reason, 60)
        self.send(terminal.broker, CloseLeg(leg=terminal.leg, by_terminal=False, code=code, reason=said))
        self._hub.timers.schedule(0, lambda: self._forget(terminal))

    def overflowed(self, terminal: RemoteTerminal) -> None:
        """Take note that a control message to a terminal has no room."""
        self._hub.connections.handlers.overflowed(terminal)

    def cut(self, broker: str) -> None:
        """End the legs of a broker's terminals: messages are lost, and these terminals come anew."""
        for terminal in tuple(self._legs.pop(broker, {}).values()):
            terminal.abort()

    def heard(self, now: float) -> None:
        """Note that terminals are there whose brokers are there and hear them."""
        for broker, legs in self._legs.items():
            if self._cluster.members.find(broker) is not None:
                for terminal in legs.values():
                    terminal.heard_at = terminal.heard_at if terminal.is_silent else now

    def _drop(self, terminal: RemoteTerminal) -> None:
        self._legs[terminal.broker].pop(terminal.leg, None)
        if not self._legs[terminal.broker]:
            del self._legs[terminal.broker]

    def _forget(self, terminal: RemoteTerminal) -> None:
        logger.debug("the leg %d of the broker %s has ended", terminal.leg, printable(terminal.broker))
        departures.connection_closed(self._hub, terminal)
