"""The broker's answer to a peer's first message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dbg_wire import PROTOCOL_MINOR, RELEASE
from dbg_wire.messages import BrokerAddress, Message, Welcome


class _Peer(Protocol):
    def send_message(self, message: Message) -> bool: ...


class Others(Protocol):
    """Source of the cluster's data for a welcome: the addresses of its brokers, and the state of NATS."""

    @property
    def nats_silent(self) -> float | None:
        """Seconds without an answer from NATS, or None while it answers."""

    def addresses(self) -> tuple[BrokerAddress, ...]:
        """Return the addresses of all brokers, this one's first."""


class Welcomes:
    """Sender of welcome messages; ``max_lease`` is the time without input after which a stop ends, in seconds."""

    def __init__(self, clock: Callable[[], float], *, host: str, pid: int, max_lease: float | None = None) -> None:
        self._clock, self._started = clock, clock()
        self._host, self._pid, self._max_lease = host, pid, max_lease
        self.others: Others | None = None
        """The cluster of this broker, or None without ``--cluster``."""

    @property
    def uptime(self) -> float:
        """Seconds since the broker started."""
        return self._clock() - self._started

    def send(self, peer: _Peer, address: str | None = None, child: int | None = None, role: str | None = None) -> None:
        """Send a welcome: the answer to a peer's first message, or a rank's new address."""
        message = Welcome(
            minor=PROTOCOL_MINOR,
            release=RELEASE,
            host=self._host,
            pid=self._pid,
            uptime=round(self.uptime, 3),
            address=address,
            child=child,
            role=role,
            max_lease=self._max_lease,
            brokers=() if self.others is None else self.others.addresses(),
            nats_silent=None if self.others is None else self.others.nats_silent,
        )
        peer.send_message(message)
