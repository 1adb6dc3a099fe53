"""Blocking client of a broker, for the verbs: which broker is meant, the steps of dialling it, and what it is asked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import dbg_dial.find
from dbg_broker.home.rendezvous import read_rendezvous
from dbg_broker.home.tokens import load_tokens
from dbg_broker.net.http import RELOAD, RELOADED_BY_ALL
from dbg_dial.apart import read_apart
from dbg_dial.blocking import PONG, TEXT, BlockingDial, NotABroker
from dbg_dial.find import Opening, Seeker
from dbg_wire.codec import decode, encode
from dbg_wire.errors import BrokerUnreachable, DbgError, NoBroker, PeerError, Refused, printable
from dbg_wire.finding.endpoint import RENDEZVOUS_FILE, Endpoint, Reach, TokenRole
from dbg_wire.finding.rendezvous import Rendezvous
from dbg_wire.messages import Greet, Message, Refusal, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

Say = Callable[[str], None]
"""Print one line."""

NOTIFY_SECONDS = 5.0
"""Seconds given to a broker that serves to take a change of its tokens or its certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a broker has done about a change: all brokers of its cluster know it, or why the others take it later."""

    by_all: bool = False
    others_wait: str = ""


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

    Raise NotServing, WrongHost if it is on another host's loopback, BadInput, or SilentFile.
    """
    try:
        return read_apart(lambda opening: dbg_dial.find.find_broker(_seeker(role, opening), argument, environ, home))
    except NoBroker:
        raise NotServing(home) from None


def _seeker(role: TokenRole, opening: Opening) -> Seeker:
    return Seeker(
        role=role,
        argument_name="the URL",
        if_unreadable="remove it and start `dbg-broker serve` again",
        opening=opening,
    )


class BrokerProbe(BlockingDial):
    """Questions to one broker; the steps of dialling come first, in their order."""

    def greet(self, name: str) -> Welcome:
        """Exchange the first messages, and return the broker's. Raise Refused."""
        self._say(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
        message = self._next()
        if not isinstance(message, Welcome):
            raise NotABroker(self.url, "it does not answer `greet` by `welcome`")
        return message

    def round_trip(self) -> float:
        """Return the seconds that a ping takes there and back; what the broker says meanwhile is left out."""
        began = time.monotonic()
        self.send_ping()
        while self.next_frame().opcode != PONG:
            pass
        return time.monotonic() - began

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

    def reload(self, token: str) -> Reloaded:
        """Have the broker read its tokens anew. Raise BrokerUnreachable if it does not, with the reason."""
        answer = self.page(RELOAD, token)
        text = printable(answer.rpartition(b"\r\n\r\n")[2].decode("utf-8", "replace").strip())
        if answer.startswith(b"HTTP/1.1 202 "):
            return Reloaded(others_wait=text)
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise BrokerUnreachable(self.url, text or "it does not answer")
        return Reloaded(by_all=text == RELOADED_BY_ALL)

    def _say(self, message: Message) -> None:
        self.send_text(encode(message))

    def _next(self) -> Message:
        while (frame := self.next_frame()).opcode != TEXT:
            pass
        try:
            return decode(frame.data, Sender.BROKER)
        except PeerError as error:
            raise NotABroker(self.url, error.reason) from None


def answers(endpoint: Endpoint, seconds: float) -> bool:
    """Return whether a broker with this endpoint's certificate listens at its address."""
    with contextlib.suppress(DbgError, OSError), BrokerProbe(endpoint, seconds) as probe:
        probe.reach()
        return True
    return False


def other_broker(serving: Rendezvous, home: Path) -> str | None:
    """Return the URL of another broker of the cluster that serves now, None if there is none."""
    with contextlib.suppress(DbgError, OSError), BrokerProbe(serving.endpoint, NOTIFY_SECONDS) as probe:
        probe.reach()
        probe.present(load_tokens(home).watcher)
        probe.agree()
        # The home's file is written some time after a broker has come or gone.
        return next((one.url for one in probe.greet("dbg-broker token").brokers[1:]), None)
    # It is that of a broker which has ended, and may name others that have ended since.
    return next((one.url for one in serving.brokers if answers(one, NOTIFY_SECONDS)), None)


def reload_tokens(endpoint: Endpoint, driver: str) -> Reloaded:
    """Have the broker at an address read its tokens anew, shown that it is that broker. Raise BrokerUnreachable."""
    try:
        with BrokerProbe(endpoint, NOTIFY_SECONDS) as probe:
            probe.reach()
            return probe.reload(driver)
    except BrokerUnreachable:
        raise
    except (DbgError, OSError) as error:
        raise BrokerUnreachable(endpoint.url, printable(str(error))) from None


def notify_broker(home: Path, aside: Callable[[str], None], *, driver: str | None = None) -> str:
    """Have the broker that serves this home read both anew; return the end of a sentence, empty if it was not told.

    If it can't tell the other brokers of its cluster, ``aside`` says that these take the change later. ``driver`` is
    the driver's token that the broker still knows, None for the home's. Raise DbgError if that can't be found.
    """
    serving = read_rendezvous(home)
    if serving is None:
        return ""
    try:
        done = reload_tokens(serving.endpoint, driver or load_tokens(home).driver)
    except BrokerUnreachable as error:
        others = (
            ", and so do the others of its cluster; type it in the home of one that serves" if serving.brokers else ""
        )
        aside(
            f"the broker at {printable(serving.url)} takes the change at its next start, as it can't be told: "
            f"{error}{others}"
        )
        return ""
    if done.others_wait:
        aside(f"the other brokers of its cluster take the change later: {done.others_wait}")
    who = "all brokers of the cluster have" if done.by_all else "the broker that serves has"
    return f", and {who} been told"
