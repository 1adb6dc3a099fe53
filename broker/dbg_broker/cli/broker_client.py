"""Blocking client of a broker, for the verbs: which broker is meant, the steps of dialling it, and what it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import dbg_dial.find
from dbg_dial.blocking import BlockingDial
from dbg_dial.endpoint import RENDEZVOUS_FILE, Reach, TokenRole
from dbg_dial.find import Seeker
from dbg_wire import PROTOCOL_MINOR, RELEASE
from dbg_wire.codec import decode, encode
from dbg_wire.errors import DbgError, NoBroker, NotABroker, PeerError, Refused, printable
from dbg_wire.messages import Greet, Message, Refusal, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted


class NotServing(DbgError):
    """No broker has left its address in the home."""

    exit_status = 4

    def __init__(self, home: str) -> None:
        super().__init__(home)
        self.home = home

    def __str__(self) -> str:
        where = printable(str(Path(self.home) / RENDEZVOUS_FILE))
        return f"no broker serves this home ({where} is not there); start `dbg-broker serve`, or set DBG_BROKER"


def find_broker(argument: str | None, home: str, environ: Mapping[str, str], role: TokenRole) -> Reach:
    """Return how to reach the broker: the argument, DBG_BROKER, or broker.json in the home.

    Raise NotServing, WrongHost if it is on another host's loopback, or BadInput.
    """
    try:
        return dbg_dial.find.find_broker(Seeker(role=role, argument_name="the URL"), argument, environ, home)
    except NoBroker:
        raise NotServing(home) from None


class BrokerProbe(BlockingDial):
    """Questions to one broker; the steps of dialling come first, in their order."""

    def greet(self, name: str) -> Welcome:
        """Exchange the first messages, and return the broker's. Raise Refused."""
        self._say(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
        message = self._next()
        if not isinstance(message, Welcome):
            raise NotABroker(self.url, "it does not answer `greet` by `welcome`")
        return message

    def ranks(self) -> list[RankInfo]:
        """Return all ranks of the broker."""
        self._say(Subscribe(once=True))
        ranks: list[RankInfo] = []
        while True:
            message = self._next()
            if isinstance(message, Refusal):
                raise Refused(self.url, message.text)
            if isinstance(message, Snapshot):
                ranks.extend(message.ranks)
                if message.last:
                    return ranks

    def _say(self, message: Message) -> None:
        self.send_text(encode(message))

    def _next(self) -> Message:
        try:
            return decode(self.next_text(), Sender.BROKER)
        except PeerError as error:
            raise NotABroker(self.url, error.reason) from None
