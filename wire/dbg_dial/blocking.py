"""Dial the broker by blocking calls, one step at a time, so that each step can be shown and a failing step explained.

The token is sent only after the certificate was compared. The library's Sans-I/O part reads and writes the frames:
``websockets.sync`` would take a thread for each connection, and longer to load than who presses Tab waits.
"""

from __future__ import annotations

import json
import math
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from dbg_dial.endpoint import Endpoint, Reach
from dbg_dial.pin import check_certificate, check_endpoint, client_context, explain, refusal
from dbg_wire import PROTOCOL_MINOR, RELEASE, subprotocol
from dbg_wire.errors import BrokerUnreachable, DbgError, NotABroker, PeerError, WrongCertificate, WrongVersion
from dbg_wire.limits import KIB, MAX_FRAME_BYTES

READ_BYTES = 64 * KIB

STEP_SECONDS = 5.0
"""Seconds of one step at most: a resolver that tries a second server takes that long."""

T = TypeVar("T", bound="BlockingDial")


class BlockingDial:
    """One connection to a broker. The steps are made in the order below, each at most once.

    ``seconds`` is the time limit of one step, and ``latest`` when all have to be over, on the monotonic clock. Raise
    BadEndpoint for a broker without a fingerprint or an authority.
    """

    def __init__(self, endpoint: Endpoint, seconds: float = STEP_SECONDS, latest: float = math.inf) -> None:
        check_endpoint(endpoint)
        self.endpoint = endpoint
        self.url = endpoint.url
        self.seconds = seconds
        self._latest = latest
        self._addresses: Sequence[tuple[socket.AddressFamily, Any]] = ()
        self._socket: socket.socket | None = None
        self._is_pinned = False
        self._protocol: ClientProtocol | None = None
        self._events: list[Any] = []

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    # ---------------------------------------------------------------------------------------------------------- steps

    def authenticate(self) -> None:
        """Dial, and have the certificate shown and compared."""
        self.look_up()
        self.connect()
        self.secure()
        self.compare()

    def look_up(self) -> str:
        """Find the host's addresses and return them as text. Raise BrokerUnreachable."""
        try:
            # As bytes, since for text Python loads the tables of international names.
            found = socket.getaddrinfo(self.endpoint.host.encode(), self.endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise explain(self.url, error, self.seconds) from None
        self._addresses = [(family, address) for family, _, _, _, address in found]
        return ", ".join(dict.fromkeys(str(address[0]) for _, address in self._addresses))

    def connect(self) -> None:
        """Connect to the first address that answers. Raise BrokerUnreachable."""
        problem, ends = OSError("no address"), self._ends()
        for left, (family, address) in zip(range(len(self._addresses), 0, -1), self._addresses, strict=True):
            connected = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            # A silent address leaves the others their share of the time.
            connected.settimeout(max(0.01, (ends - time.monotonic()) / left))
            try:
                connected.connect(address)
            except OSError as error:
                connected.close()
                problem = error
            else:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socket = connected
                return
        raise explain(self.url, problem, self.seconds)

    def secure(self) -> str:
        """Make the TLS handshake and return the version of TLS.

        Raise NotABroker, UntrustedCertificate, or BrokerUnreachable for a peer that is silent.
        """
        context = client_context(self.endpoint)
        try:
            # As bytes, as above.
            name = self.endpoint.host.encode() if self.endpoint.ca is not None else None
            secured = context.wrap_socket(self._within(self._ends()), server_hostname=name)
        except (OSError, ValueError) as error:
            raise explain(self.url, error, self.seconds) from None
        self._socket = secured
        return secured.version() or "TLS"

    def compare(self) -> str:
        """Return the fingerprint of the certificate shown. Raise WrongCertificate if it is not a pinned one."""
        secured = self.connected()
        shown = secured.getpeercert(binary_form=True) if isinstance(secured, ssl.SSLSocket) else None
        found = check_certificate(self.endpoint, shown)
        self._is_pinned = True
        return found

    def present(self, token: str, path: str = "/client") -> None:
        """Ask with this token for an upgrade to a WebSocket at a role's path.

        Raise WrongToken, WrongVersion, another Refused or NotABroker. Raise WrongCertificate, with nothing sent, if the
        peer has not shown the pinned certificate.
        """
        self._ask(path, token)
        answer = self._next_event()
        if not isinstance(answer, Response) or self._protocol is None:
            raise NotABroker(self.url, "it does not answer a WebSocket handshake")
        if answer.status_code != 101:
            body = bytes(answer.body or b"").decode("utf-8", "replace").strip()
            raise refusal(self.url, answer.status_code, body)
        if self._protocol.handshake_exc is not None:
            raise explain(self.url, self._protocol.handshake_exc, self.seconds)
        if self._protocol.subprotocol != subprotocol():
            raise WrongVersion(self.url, f"it did not agree to {subprotocol()}")

    # ------------------------------------------------------------------------------------------------ once it is open

    def connected(self) -> socket.socket:
        """Return the socket. Raise BrokerUnreachable if it is not connected."""
        if self._socket is None:
            raise BrokerUnreachable(self.url, "not connected")
        return self._socket

    def send_text(self, text: str) -> None:
        """Send a message. Raise BrokerUnreachable."""
        self._open().send_text(text.encode())
        self._flush()

    def round_trip(self) -> float:
        """Return the seconds that a ping takes there and back; what the broker says meanwhile is left out."""
        began = time.monotonic()
        self._open().send_ping(b"dbg")
        self._flush()
        while self._next_frame().opcode is not Opcode.PONG:
            pass
        return time.monotonic() - began

    def next_text(self) -> bytes:
        """Return the message that comes next. Raise BrokerUnreachable or NotABroker."""
        text = b""
        while True:
            frame = self._next_frame()
            if frame.opcode in (Opcode.TEXT, Opcode.CONT):
                text += frame.data
                if frame.fin:
                    return text

    # ---------------------------------------------------------------------------------------------------------- inner

    def _ask(self, path: str, token: str) -> None:
        """Send a request with a token."""
        if not self._is_pinned:
            raise WrongCertificate(self.url, "its certificate was not looked at")
        self._protocol = ClientProtocol(
            parse_uri(self.url + path),
            subprotocols=[subprotocol()],  # type: ignore[list-item] # a NewType of str
            max_size=MAX_FRAME_BYTES,
        )
        request = self._protocol.connect()
        request.headers["Authorization"] = f"Bearer {token}"
        self._protocol.send_request(request)
        self._flush()

    def _open(self) -> ClientProtocol:
        if self._protocol is None:
            raise BrokerUnreachable(self.url, "the connection ended")
        return self._protocol

    def _ends(self) -> float:
        """Return when a step ends that begins now, so that a peer that sends byte by byte delays nothing."""
        return min(time.monotonic() + self.seconds, self._latest)

    def _within(self, ends: float) -> socket.socket:
        """Return the socket, which waits until then. Raise TimeoutError if that is over."""
        connected, left = self.connected(), ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connected.settimeout(left)
        return connected

    def _flush(self) -> None:
        """Send what the protocol has to send. Raise BrokerUnreachable."""
        try:
            for data in self._protocol.data_to_send() if self._protocol is not None else ():
                self._within(self._ends()).sendall(data)
        except OSError as error:
            raise explain(self.url, error, self.seconds) from None

    def _next_frame(self) -> Frame:
        event = self._next_event()
        if not isinstance(event, Frame):
            raise NotABroker(self.url, "it does not speak WebSocket")
        if event.opcode is Opcode.CLOSE:
            raise BrokerUnreachable(self.url, "the connection ended")
        return event

    def _next_event(self) -> Any:
        """Return the answer to the request, or the frame that comes next. Raise BrokerUnreachable or NotABroker."""
        protocol, ends = self._open(), self._ends()
        while not self._events:
            try:
                data = self._within(ends).recv(READ_BYTES)
            except OSError as error:
                raise explain(self.url, error, self.seconds) from None
            if data:
                protocol.receive_data(data)
            else:
                protocol.receive_eof()
            self._events = protocol.events_received()
            self._flush()
            failed = protocol.handshake_exc or protocol.parser_exc
            if not self._events and (failed is not None or not data):
                raise explain(self.url, failed or EOFError(), self.seconds)
        return self._events.pop(0)


def answers(endpoint: Endpoint, seconds: float) -> bool:
    """Return whether a broker with this endpoint's certificate listens at its address; a step takes ``seconds``."""
    with suppress(DbgError, OSError), BlockingDial(endpoint, seconds) as dial:
        dial.authenticate()
        return True
    return False


def glance(reach: Reach, name: str, *, connect_seconds: float, seconds: float) -> list[dict[str, Any]]:
    """Return the ranks as the broker lists them, unchecked; ``name`` says to it who looks.

    It is for the completion of a shell. Looking up the host blocks for as long as the name server does. Raise DbgError,
    or ValueError if it is no JSON.
    """
    ranks: list[dict[str, Any]] = []
    with BlockingDial(reach.endpoint, connect_seconds, time.monotonic() + seconds) as dial:
        dial.look_up()
        dial.connect()
        dial.seconds = seconds
        dial.secure()
        dial.compare()
        dial.present(reach.token)
        greet = {"type": "greet", "minor": PROTOCOL_MINOR, "release": RELEASE, "name": name}
        for message in (greet, {"type": "subscribe", "once": True}):
            dial.send_text(json.dumps(message))
        while True:
            said = json.loads(dial.next_text())
            if said.get("type") == "refusal":
                raise PeerError("a refusal")
            if said.get("type") == "snapshot":
                ranks += said["ranks"]
                if said["last"]:
                    return ranks
