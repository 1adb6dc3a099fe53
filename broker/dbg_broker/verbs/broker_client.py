"""Blocking client of a broker, for the verbs: which broker is meant, the steps of dialling it, and what it is asked."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dbg_dial.find
from dbg_broker.home.bearer import Role
from dbg_broker.home.rendezvous import read_rendezvous
from dbg_broker.home.tokens import load_tokens, proof
from dbg_broker.net.http import RELOAD, RELOADED_BY_ALL
from dbg_dial.apart import read_apart
from dbg_dial.ask import ask_secret
from dbg_dial.blocking import PONG, TEXT, BlockingDial, NotABroker
from dbg_dial.find import Opening, Seeker
from dbg_dial.memory import ask_memory
from dbg_wire.codec import decode, encode
from dbg_wire.errors import BrokerUnreachable, DbgError, NoBroker, PeerError, Refused, printable
from dbg_wire.finding.endpoint import RENDEZVOUS_FILE, Endpoint, Reach, TokenRole
from dbg_wire.finding.environment import ASK_TOKEN, TOKEN, TOKEN_FILE
from dbg_wire.finding.rendezvous import Rendezvous
from dbg_wire.messages import Greet, Message, Refusal, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

ANSWER_SECONDS = 2.0
"""Seconds given to a broker without TLS to prove its token: on loopback it takes milliseconds."""

Say = Callable[[str], None]
"""Print one line."""

CHALLENGE_BYTES = 32
"""256 bits, so that no challenge comes twice."""

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
    if role != "rank" and environ.get(ASK_TOKEN, "") not in ("", "0"):
        asked = {name: value for name, value in environ.items() if name != TOKEN_FILE}
        environ = {**asked, TOKEN: ask_secret(f"Token of a {role}: ")}
    try:
        return read_apart(lambda opening: dbg_dial.find.find_broker(_seeker(role, opening), argument, environ, home))
    except NoBroker:
        raise NotServing(home) from None


def _seeker(role: TokenRole, opening: Opening) -> Seeker:
    return Seeker(
        role=role,
        argument_name="the URL",
        if_unreadable="remove it and start `dbg-broker serve` again",
        read_memory=partial(ask_memory, environ=os.environ),
        opening=opening,
    )


def token_of(role: Role, home: Path) -> str:
    """Return the token that the home's broker takes: a lasting one, or that of a broker without TLS that serves now.

    Blocks for ANSWER_SECONDS at most. Raise BadSecretFile as load_tokens does.
    """
    with contextlib.suppress(DbgError):
        found = read_rendezvous(home)
        if found is not None and found.driver_token != "file" and role is not Role.RANK:  # noqa: S105 - a word
            is_asked = found.driver_token == "ask"  # noqa: S105 - a word
            return find_broker(None, str(home), {ASK_TOKEN: "1"} if is_asked else {}, role.value).token
        if found is not None and found.fingerprint is None:
            reach = find_broker(None, str(home), {}, role.value)
            if answers(reach.endpoint, reach.token, ANSWER_SECONDS):
                return reach.token
    return load_tokens(home).of(role)


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

    def knows(self, token: str) -> bool:
        """Tell whether the peer knows the token, too; the token is not sent."""
        challenge = secrets.token_hex(CHALLENGE_BYTES)
        answer = self.page(f"/healthz?prove={challenge}")
        expected = proof(token, challenge).encode()
        return any(hmac.compare_digest(line, expected) for line in answer.splitlines())

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


def answers(endpoint: Endpoint, token: str | None, seconds: float) -> bool:
    """Tell whether the broker that an address names is there: it has its certificate or, without TLS, its token.

    Another program that listens there by now has neither.
    """
    with contextlib.suppress(DbgError, OSError), BrokerProbe(endpoint, seconds) as probe:
        probe.reach()
        return endpoint.secure or (token is not None and probe.knows(token))
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
    return next((one.url for one in serving.brokers if answers(one, None, ANSWER_SECONDS)), None)


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
        done = reload_tokens(serving.endpoint, driver or token_of(Role.DRIVER, home))
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
