"""A small blocking client: is there a broker, is it the right one, does it take this token?

One step at a time, so that each can be shown and the failing one explained. The token is sent only after the
certificate was compared.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import ssl
import time
from types import TracebackType

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from dbg_broker.home.tokens import proof
from dbg_wire import limits
from dbg_wire.codec import decode, encode
from dbg_wire.endpoint import Endpoint, fingerprint_of, same_fingerprint
from dbg_wire.errors import (
    BrokerUnreachable,
    DbgError,
    PeerError,
    Refused,
    WrongCertificate,
    WrongToken,
    WrongVersion,
    printable,
)
from dbg_wire.messages import Greet, Message, Refusal, Sender, Snapshot, Subscribe, Welcome
from dbg_wire.ranks import RankInfo
from dbg_wire.records import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE, subprotocol

STEP_SECONDS = 5.0
"""Seconds of one step at most: a resolver that tries a second server takes that long."""

READ_BYTES = 64 * limits.KIB

CHALLENGE_BYTES = 32
"""256 bits, which nobody has been asked before."""


class NotABroker(Refused):
    """Say that something else than a broker listens there."""

    def __str__(self) -> str:
        return (
            f"whoever listens at {printable(self.url)} is no dbg-broker ({printable(self.reason)}); "
            "compare the address with the one that `dbg-broker serve` printed"
        )


class Probe:
    """Hold one connection to a broker; the steps are to be made in their order, each at most once."""

    def __init__(self, endpoint: Endpoint, seconds: float = STEP_SECONDS) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url
        self._seconds = seconds
        self._addresses: list[tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]] = []
        self._socket: socket.socket | None = None
        self._websocket: ClientProtocol | None = None
        self._refusal: tuple[int, str] | None = None
        self._messages: list[Message] = []
        self._pongs = 0

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    # ---------------------------------------------------------------------------------------------------------- steps

    def look_up(self) -> str:
        """Find the host's addresses and return them as text. Raise BrokerUnreachable."""
        try:
            found = socket.getaddrinfo(self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise BrokerUnreachable(self._url, f"the host's name can't be resolved: {error.strerror}") from None
        self._addresses = [(family, address) for family, _, _, _, address in found]  # type: ignore[misc]
        return ", ".join(dict.fromkeys(str(address[0]) for _, address in self._addresses))

    def connect(self) -> None:
        """Connect to the first address that answers. Raise BrokerUnreachable."""
        reason = "no address"
        for family, address in self._addresses:
            connected = socket.socket(family, socket.SOCK_STREAM)
            connected.settimeout(self._seconds)
            try:
                connected.connect(address)
            except OSError as error:
                connected.close()
                reason = error.strerror or f"nothing within {self._seconds:g} s"
            else:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socket = connected
                return
        raise BrokerUnreachable(self._url, reason)

    def secure(self) -> str:
        """Shake hands by TLS and return its version. Raise NotABroker."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The fingerprint is what tells the broker from others, whatever name it was dialled by.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            secured = context.wrap_socket(self._connected())
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise NotABroker(self._url, f"it does not speak TLS: {reason}") from None
        self._socket = secured
        return secured.version() or "TLS"

    def compare(self) -> str:
        """Return the fingerprint of the certificate shown. Raise WrongCertificate if it is not the pinned one."""
        secured = self._connected()
        der = secured.getpeercert(binary_form=True) if isinstance(secured, ssl.SSLSocket) else None
        shown = fingerprint_of(der or b"")
        pinned = self._endpoint.fingerprint
        if pinned is None or not same_fingerprint(shown, pinned):
            raise WrongCertificate(self._url, f"its certificate is {shown}, not {pinned}")
        return shown

    def present(self, token: str) -> None:
        """Ask to become a WebSocket with this token. Raise WrongToken or NotABroker; see also :meth:`agree`."""
        self._websocket = ClientProtocol(
            parse_uri(f"{self._url}/client"),
            subprotocols=[Subprotocol(subprotocol())],
            max_size=limits.MAX_FRAME_BYTES,
        )
        request = self._websocket.connect()
        request.headers["Authorization"] = f"Bearer {token}"
        self._websocket.send_request(request)
        self._flush(self._websocket)
        while self._websocket.state is State.CONNECTING and self._refusal is None:
            self._receive(self._websocket)
        if self._refusal is None:
            return
        status, body = self._refusal
        if status in (401, 403):
            raise WrongToken(self._url, body)
        if status == 503:
            raise Refused(self._url, body)
        if status != 426:
            raise NotABroker(self._url, f"it answers HTTP status {status}")

    def agree(self) -> None:
        """Find that both ends speak the same protocol. Raise WrongVersion."""
        if self._refusal is not None:
            raise WrongVersion(self._url, self._refusal[1])

    def greet(self, name: str) -> Welcome:
        """Exchange the first messages, and return the broker's. Raise Refused."""
        self._say(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
        message = self._next()
        if not isinstance(message, Welcome):
            raise NotABroker(self._url, "it does not answer `greet` by `welcome`")
        return message

    def round_trip(self) -> float:
        """Return the seconds that a ping takes there and back."""
        websocket = self._open_websocket()
        began = time.monotonic()
        websocket.send_ping(b"dbg")
        self._flush(websocket)
        while not self._pongs:
            self._receive(websocket)
        return time.monotonic() - began

    def ranks(self) -> list[RankInfo]:
        """Return all ranks of the broker."""
        self._say(Subscribe(once=True))
        ranks: list[RankInfo] = []
        while True:
            message = self._next()
            if isinstance(message, Refusal):
                raise Refused(self._url, message.text)
            if isinstance(message, Snapshot):
                ranks.extend(message.ranks)
                if message.last:
                    return ranks

    def knows(self, token: str) -> bool:
        """Tell whether who is there knows the token, too; the token is not sent."""
        connected = self._connected()
        deadline = time.monotonic() + self._seconds
        challenge = secrets.token_hex(CHALLENGE_BYTES)
        request = f"GET /healthz?prove={challenge} HTTP/1.1\r\nHost: {self._endpoint.host}\r\n\r\n"
        connected.sendall(request.encode())
        answer = b""
        while len(answer) < READ_BYTES and (left := deadline - time.monotonic()) > 0:
            # Of the whole answer, so that somebody who sends it byte by byte holds nobody up.
            connected.settimeout(left)
            if not (data := connected.recv(READ_BYTES)):
                break
            answer += data
        expected = proof(token, challenge).encode()
        return any(hmac.compare_digest(line, expected) for line in answer.splitlines())

    # ---------------------------------------------------------------------------------------------------------- inner

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise BrokerUnreachable(self._url, "not connected")
        return self._socket

    def _open_websocket(self) -> ClientProtocol:
        if self._websocket is None or self._websocket.state is not State.OPEN:
            raise BrokerUnreachable(self._url, "the connection ended")
        return self._websocket

    def _say(self, message: Message) -> None:
        websocket = self._open_websocket()
        websocket.send_text(encode(message).encode())
        self._flush(websocket)

    def _next(self) -> Message:
        while not self._messages:
            self._receive(self._open_websocket())
        return self._messages.pop(0)

    def _flush(self, websocket: ClientProtocol) -> None:
        try:
            for data in websocket.data_to_send():
                if data:
                    self._connected().sendall(data)
        except OSError as error:
            raise BrokerUnreachable(self._url, error.strerror or "it does not read") from None

    def _receive(self, websocket: ClientProtocol) -> None:
        try:
            data = self._connected().recv(READ_BYTES)
        except OSError as error:
            raise BrokerUnreachable(self._url, error.strerror or f"nothing within {self._seconds:g} s") from None
        if data:
            websocket.receive_data(data)
        else:
            websocket.receive_eof()
        for event in websocket.events_received():
            if isinstance(event, Response):
                self._take_response(event)
            elif isinstance(event, Frame):
                self._take_frame(event)
        self._flush(websocket)
        if self._refusal is None and websocket.handshake_exc is not None:
            raise NotABroker(self._url, "it does not answer a WebSocket handshake")
        if not data and self._refusal is None and not self._messages:
            raise BrokerUnreachable(self._url, "the connection ended")

    def _take_response(self, response: Response) -> None:
        if response.status_code != 101:
            body = (response.body or b"").decode("utf-8", "replace").strip()
            self._refusal = response.status_code, body or response.reason_phrase

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self._pongs += 1
        elif frame.opcode is Opcode.TEXT:
            try:
                self._messages.append(decode(bytes(frame.data), Sender.BROKER))
            except PeerError as error:
                raise NotABroker(self._url, error.reason) from None


def answers(endpoint: Endpoint, token: str | None, seconds: float) -> bool:
    """Tell whether the broker that an address names is there: it has its certificate or, without TLS, its token.

    Somebody else who listens there by now has neither.
    """
    with contextlib.suppress(DbgError, OSError), Probe(endpoint, seconds) as probe:
        probe.look_up()
        probe.connect()
        if endpoint.secure:
            probe.secure()
            probe.compare()
            return True
        return token is not None and probe.knows(token)
    return False
