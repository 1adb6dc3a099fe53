"""The owner's side of legs: terminals of other brokers at ranks of this one.

A remote terminal stands where the connection of an own one would: what its terminal says goes through the same code,
and what is sent to it waits in an outbox with the same policy. A credit window bounds the bytes on their way, so that
a slow terminal, or a slow broker, fills its own outbox alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable
from itertools import count
from typing import TYPE_CHECKING

from dbg_broker.home.bearer import Bearer
from dbg_broker.hub import departures
from dbg_broker.hub.cluster.messages import (
    CloseLeg,
    LegData,
    LegFrame,
    LegRest,
    LegSilent,
    LegTaken,
    LegText,
    OpenLeg,
)
from dbg_broker.hub.links import TerminalLink
from dbg_broker.net.outbox import Outbox
from dbg_broker.net.websocket import CloseCode, pack_message
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


class CreditWindow:
    """Credit window: takes frames while fewer than WINDOW_BYTES are on their way, and counts them."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._under_way = 0
        self.is_closing = False

    @property
    def is_full(self) -> bool:
        """Tell whether further frames have to wait."""
        return self._under_way >= WINDOW_BYTES

    @property
    def buffered(self) -> int:
        """Return how many bytes it holds: none that could wait elsewhere, as long as it takes more."""
        return self._under_way if self.is_full else 0

    def write(self, data: bytes) -> None:
        """Send a frame."""
        self._under_way += len(data)
        self._send(data)

    def give_back(self, size: int) -> None:
        """Take note of bytes that have arrived."""
        self._under_way = max(0, self._under_way - size)


class RemoteTerminal:
    """The channel to a terminal of another broker."""

    def __init__(self, number: int, opened: OpenLeg, broker: str, owner: HostedLegs, now: float) -> None:
        self.number = number
        self.peer = opened.peer
        self.heard_at = now
        self.leg, self.broker = opened.leg, broker
        self.is_silent = False
        """Whether its broker hears nothing of it."""
        self._owner = owner
        self._window = CreditWindow(self._send)
        self._outbox = Outbox(now)
        self._outbox.transport = self._window

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""
        return not self._window.is_closing and self._outbox.is_free

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message as :meth:`send_control` does."""
        logger.debug("leg %d is told %s", self.number, LogForm(message))
        return self.send_control(pack_message(message), instead_of)

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; False if it has no room, and the terminal is closed then."""
        if self._window.is_closing:
            return False
        if self._outbox.send_control(frame, instead_of):
            return True
        self._owner.overflowed(self)
        return False

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait beside no more than ``most`` bytes; False if it was dropped."""
        return not self._window.is_closing and self._outbox.send_output(frame, most)

    def missed_output(self) -> bool:
        """Tell, once, that output was dropped and the terminal can take a repaint."""
        return self.is_ready and self._outbox.missed()

    def is_stalled(self, now: float, seconds: float) -> bool:
        """Tell whether the terminal has taken nothing for ``seconds`` although things wait."""
        return not self._window.is_closing and self._outbox.is_stalled(now, seconds)

    def ping(self) -> None:
        """Do nothing: the terminal's own broker asks it for signs of life, and tells when there are none."""

    def rest(self, seconds: float) -> None:
        """Have nothing read of the terminal for a while."""
        self._owner.send(self.broker, LegRest(leg=self.leg, seconds=min(seconds, limits.MAX_ASK_SECONDS)))

    def taken(self, size: int) -> bool:
        """Take credit back, and send what waits; tell whether nothing waits any more."""
        self._window.give_back(size)
        if self._window.is_closing or self._window.is_full:
            return False
        self._outbox.is_paused = False
        self._outbox.pump()
        return self.is_ready

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """End the leg, and the terminal with it; what waits goes out before, unless ``flush`` is False."""
        if self._window.is_closing:
            return
        if flush:
            self._outbox.flush()
        self._outbox.clear()
        self._window.is_closing = True
        self._owner.closed(self, code, reason)

    def abort(self) -> None:
        """End the leg at once."""
        self.close(CloseCode.SHUTDOWN, "its rank's broker has ended the way to it", flush=False)

    def _send(self, frame: bytes) -> None:
        if self._window.is_full:
            self._outbox.is_paused = True
        self._owner.send(self.broker, LegFrame(leg=self.leg, frame=frame))


class HostedLegs:
    """The legs of other brokers' terminals to ranks of this broker."""

    def __init__(self, hub: Hub, cluster: Cluster) -> None:
        self._hub, self._cluster = hub, cluster
        self._legs: dict[tuple[str, int], RemoteTerminal] = {}
        self._of_broker: Counter[str] = Counter()
        self._numbers = count(FIRST_NUMBER)
        cluster.on(OpenLeg, self._open)
        cluster.on(LegText, self._text)
        cluster.on(LegData, self._data)
        cluster.on(LegTaken, self._taken)
        cluster.on(LegSilent, self._silent)

    def __len__(self) -> int:
        return len(self._legs)

    def send(self, broker: str, message: LegFrame | LegRest | CloseLeg) -> bool:
        """Send a terminal's broker a message; what is lost is made good when the leg is opened anew."""
        return self._cluster.send(broker, message)

    # ----------------------------------------------------------------------------------------------------- what is said

    def _open(self, sender: str, message: OpenLeg) -> None:
        hub = self._hub
        if (sender, message.leg) in self._legs or self._of_broker[sender] >= MAX_LEGS:
            why = "the rank's broker takes no more terminals of this one"
            self.send(sender, CloseLeg(leg=message.leg, by_terminal=False, code=CloseCode.SHUTDOWN, reason=why))
            return
        now = hub.timers.clock()
        terminal = RemoteTerminal(next(self._numbers), message, sender, self, now)
        bearer = Bearer(role=message.role, digest=message.digest, name=message.token, job=message.job)
        rate = TokenBucket(now, limits.MAX_INPUT_PER_SECOND)
        self._legs[sender, message.leg] = terminal
        self._of_broker[sender] += 1
        hub.link_terminal(TerminalLink(terminal, bearer, rate, name=message.name, broker=sender))
        if message.logs:
            hub.terminals.log_listeners.set(terminal.number, wants=True)

    def _text(self, sender: str, message: LegText) -> None:
        terminal = self._find(sender, message.leg)
        if terminal is not None:
            self._hub.connections.handlers.text(terminal, message.text.decode("utf-8", "replace"))

    def _data(self, sender: str, message: LegData) -> None:
        terminal = self._find(sender, message.leg)
        if terminal is not None:
            self._hub.connections.handlers.data(terminal, message.data)

    def _taken(self, sender: str, message: LegTaken) -> None:
        terminal = self._legs.get((sender, message.leg))
        if terminal is None:
            return
        is_ready = terminal.taken(message.count)
        if message.missed:
            self._hub.missed_output(self._hub.terminals.links[terminal.number])
        if is_ready:
            self._hub.connections.handlers.drained(terminal)

    def _silent(self, sender: str, message: LegSilent) -> None:
        terminal = self._legs.get((sender, message.leg))
        if terminal is not None:
            terminal.is_silent = message.seconds > 0
            terminal.heard_at = self._hub.timers.clock() - message.seconds

    def _find(self, sender: str, leg: int) -> RemoteTerminal | None:
        """Return a leg; of one that is not there any more its broker is told so."""
        terminal = self._legs.get((sender, leg))
        if terminal is None:
            why = "its rank's broker does not know it"
            self.send(sender, CloseLeg(leg=leg, by_terminal=False, code=CloseCode.SHUTDOWN, reason=why))
        return terminal

    # ---------------------------------------------------------------------------------------------------------- its end

    def ended(self, sender: str, message: CloseLeg) -> None:
        """Forget a leg that its terminal's broker has ended."""
        terminal = self._legs.get((sender, message.leg))
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

    def cut(self, broker: str | None = None) -> None:
        """End the legs of a broker's terminals, or of all: messages are lost, and these terminals come anew."""
        for terminal in [one for one in self._legs.values() if broker in (None, one.broker)]:
            terminal.abort()

    def heard(self, now: float) -> None:
        """Note that terminals are there whose brokers are there and hear them."""
        for terminal in self._legs.values():
            if not terminal.is_silent and self._cluster.members.find(terminal.broker) is not None:
                terminal.heard_at = now

    def _drop(self, terminal: RemoteTerminal) -> None:
        if self._legs.pop((terminal.broker, terminal.leg), None) is not None:
            self._of_broker[terminal.broker] -= 1
            if not self._of_broker[terminal.broker]:
                del self._of_broker[terminal.broker]

    def _forget(self, terminal: RemoteTerminal) -> None:
        logger.debug("the leg %d of the broker %s has ended", terminal.leg, printable(terminal.broker))
        departures.connection_closed(self._hub, terminal)
