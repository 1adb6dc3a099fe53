"""What the verbs ask a broker: what it is, what it has, and whether it is the one that an address names."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import time

from websockets.frames import Opcode

from dbg_broker.home.tokens import proof
from dbg_broker.net.http import RELOAD
from dbg_dial.blocking import BlockingDial, NotABroker
from dbg_wire.codec import decode, encode
from dbg_wire.errors import BrokerUnreachable, DbgError, PeerError, Refused, printable
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.messages import Greet, Message, Refusal, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

STEP_SECONDS = 5.0
"""Seconds of one step at most: a resolver that tries a second server takes that long."""

CHALLENGE_BYTES = 32
"""256 bits, so that no challenge comes twice."""


class BrokerProbe(BlockingDial):
    """Questions to one broker; the steps of dialling come first, in their order."""

    def __init__(self, endpoint: Endpoint, seconds: float = STEP_SECONDS) -> None:
        super().__init__(endpoint, seconds)
        self._messages: list[Message] = []

    def greet(self, name: str) -> Welcome:
        """Exchange the first messages, and return the broker's. Raise Refused."""
        self._say(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
        message = self._next()
        if not isinstance(message, Welcome):
            raise NotABroker(self.url, "it does not answer `greet` by `welcome`")
        return message

    def round_trip(self) -> float:
        """Return the seconds that a ping takes there and back."""
        began = time.monotonic()
        self.send_ping()
        while not self._take_frame():
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

    def reload(self, token: str) -> None:
        """Have the broker read its tokens anew. Raise BrokerUnreachable if it does not, with the reason."""
        answer = self.page(RELOAD, token)
        if not answer.startswith(b"HTTP/1.1 200 "):
            reason = answer.rpartition(b"\r\n\r\n")[2].decode("utf-8", "replace").strip()
            raise BrokerUnreachable(self.url, printable(reason) or "it does not answer")

    def _say(self, message: Message) -> None:
        self.send_text(encode(message))

    def _next(self) -> Message:
        while not self._messages:
            self._take_frame()
        return self._messages.pop(0)

    def _take_frame(self) -> bool:
        """Take the next frame, a message perhaps; return whether it answers a ping."""
        frame = self.next_frame()
        if frame.opcode is Opcode.TEXT:
            try:
                self._messages.append(decode(bytes(frame.data), Sender.BROKER))
            except PeerError as error:
                raise NotABroker(self.url, error.reason) from None
        return frame.opcode is Opcode.PONG


def answers(endpoint: Endpoint, token: str | None, seconds: float) -> bool:
    """Tell whether the broker that an address names is there: it has its certificate or, without TLS, its token.

    Another program that listens there by now has neither.
    """
    with contextlib.suppress(DbgError, OSError), BrokerProbe(endpoint, seconds) as probe:
        probe.look_up()
        probe.connect()
        if endpoint.secure:
            probe.secure()
            probe.compare()
            return True
        return token is not None and probe.knows(token)
    return False


def reload_tokens(endpoint: Endpoint, driver: str, seconds: float) -> None:
    """Have the broker at an address read its tokens anew, shown that it is that broker. Raise BrokerUnreachable."""
    try:
        with BrokerProbe(endpoint, seconds) as probe:
            probe.look_up()
            probe.connect()
            probe.secure()
            probe.compare()
            probe.reload(driver)
    except BrokerUnreachable:
        raise
    except (DbgError, OSError) as error:
        raise BrokerUnreachable(endpoint.url, printable(str(error))) from None
