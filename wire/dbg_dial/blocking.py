"""Dial the broker by blocking calls, one step at a time, so that each step can be shown and a failing step explained.

The token is sent only after the certificate was compared.
"""

from __future__ import annotations

import socket
import ssl
import time
from types import TracebackType
from typing import TypeVar

from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from dbg_dial.pin import check_certificate, check_endpoint, check_token, client_context, untrusted
from dbg_dial.tcp import Address
from dbg_wire.errors import BrokerUnreachable, Refused, WrongCertificate, WrongToken, WrongVersion, printable
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.limits import KIB, MAX_FRAME_BYTES
from dbg_wire.version import subprotocol

READ_BYTES = 64 * KIB

T = TypeVar("T", bound="BlockingDial")


class NotABroker(Refused):
    """The refusal of a peer at ``url`` that is not a broker."""

    def __str__(self) -> str:
        return (
            f"whoever listens at {printable(self.url)} is no dbg-broker ({printable(self.reason)}); "
            "compare the address with the one that `dbg-broker serve` printed"
        )


class BlockingDial:
    """One connection to a broker. The steps are made in the order below, each at most once.

    ``seconds`` is the time limit of one step. Raise BadEndpoint for TLS without a fingerprint.
    """

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        check_endpoint(endpoint)
        self.endpoint = endpoint
        self.url = endpoint.url
        self.seconds = seconds
        self._addresses: list[Address] = []
        self._socket: socket.socket | None = None
        self._is_pinned = False
        self._websocket: ClientProtocol | None = None
        self._refusal: tuple[int, str] | None = None
        self._frames: list[Frame] = []

    def __enter__(self: T) -> T:
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
            found = socket.getaddrinfo(self.endpoint.host, self.endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise BrokerUnreachable(self.url, f"the host's name can't be resolved: {error.strerror}") from None
        self._addresses = [(family, address) for family, _, _, _, address in found]
        return ", ".join(dict.fromkeys(str(address[0]) for _, address in self._addresses))

    def connect(self) -> None:
        """Connect to the first address that answers. Raise BrokerUnreachable."""
        reason = "no address"
        for family, address in self._addresses:
            connected = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            connected.settimeout(self.seconds)
            try:
                connected.connect(address)
            except OSError as error:
                connected.close()
                reason = error.strerror or f"nothing within {self.seconds:g} s"
            else:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socket = connected
                return
        raise BrokerUnreachable(self.url, reason)

    def secure(self) -> str:
        """Make the TLS handshake and return the version of TLS.

        Raise NotABroker, UntrustedCertificate, or BrokerUnreachable for a peer that is silent.
        """
        context = client_context(self.endpoint)
        try:
            name = self.endpoint.host if self.endpoint.ca is not None else None
            secured = context.wrap_socket(self.connected(), server_hostname=name)
        except TimeoutError:
            raise BrokerUnreachable(self.url, f"nothing within {self.seconds:g} s") from None
        except (OSError, ValueError) as error:
            if (no_trust := untrusted(self.url, error)) is not None:
                raise no_trust from None
            reason = getattr(error, "reason", None) or type(error).__name__
            raise NotABroker(self.url, f"it does not speak TLS: {reason}") from None
        self._socket = secured
        return secured.version() or "TLS"

    def compare(self) -> str:
        """Return the fingerprint of the certificate shown. Raise WrongCertificate if it is not a pinned one."""
        shown = check_certificate(self.endpoint, self.certificate(), "its certificate is {shown}, not {pinned}")
        self._is_pinned = True
        return shown

    def certificate(self) -> bytes | None:
        """Return the certificate that the peer has shown, in DER form; None without TLS."""
        secured = self.connected()
        return secured.getpeercert(binary_form=True) if isinstance(secured, ssl.SSLSocket) else None

    def present(self, token: str, path: str = "/client") -> None:
        """Ask with this token for an upgrade to a WebSocket at a role's path; see also :meth:`agree`.

        Raise WrongToken or NotABroker. Raise WrongCertificate, with nothing sent, if the peer has not shown the pinned
        certificate, and BadEndpoint, with nothing sent, for a lasting token without TLS.
        """
        self._check(token)
        self._websocket = ClientProtocol(
            parse_uri(f"{self.url}{path}"),
            subprotocols=[Subprotocol(subprotocol())],
            max_size=MAX_FRAME_BYTES,
        )
        request = self._websocket.connect()
        request.headers["Authorization"] = f"Bearer {token}"
        self._websocket.send_request(request)
        self._flush(self._websocket)
        while self._websocket.state is State.CONNECTING and self._refusal is None:
            self._receive(self._websocket)
        if self._refusal is not None:
            self._refuse(*self._refusal)

    def agree(self) -> None:
        """Check that both ends speak the same protocol version. Raise WrongVersion."""
        if self._refusal is not None:
            raise WrongVersion(self.url, self._refusal[1])

    def page(self, target: str, token: str | None = None) -> bytes:
        """Ask for a page, with this token if one is given, and return the whole answer, its head included.

        Block for ``seconds`` at most in all. Raise what :meth:`present` raises for the token, with nothing sent.
        """
        head = f"GET {target} HTTP/1.1\r\nHost: {self.endpoint.host}\r\n"
        if token is not None:
            self._check(token)
            head += f"Authorization: Bearer {token}\r\n"
        connected = self.connected()
        deadline = time.monotonic() + self.seconds
        connected.sendall(f"{head}\r\n".encode())
        answer = b""
        while len(answer) < READ_BYTES and (left := deadline - time.monotonic()) > 0:
            # One deadline for the whole answer, so that a peer that sends it byte by byte delays nothing.
            connected.settimeout(left)
            if not (data := connected.recv(READ_BYTES)):
                break
            answer += data
        return answer

    # ------------------------------------------------------------------------------------------------ once it is open

    def connected(self) -> socket.socket:
        """Return the socket. Raise BrokerUnreachable if it is not connected."""
        if self._socket is None:
            raise BrokerUnreachable(self.url, "not connected")
        return self._socket

    def send_text(self, text: str) -> None:
        """Send a text frame. Raise BrokerUnreachable."""
        websocket = self._open_websocket()
        websocket.send_text(text.encode())
        self._flush(websocket)

    def send_ping(self) -> None:
        """Send a ping. Raise BrokerUnreachable."""
        websocket = self._open_websocket()
        websocket.send_ping(b"dbg")
        self._flush(websocket)

    def next_frame(self) -> Frame:
        """Return the frame that comes next. Raise BrokerUnreachable or NotABroker."""
        while not self._frames:
            self._receive(self._open_websocket())
        return self._frames.pop(0)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _check(self, token: str) -> None:
        check_token(self.endpoint, token)
        if self.endpoint.secure and not self._is_pinned:
            raise WrongCertificate(self.url, "its certificate was not looked at")

    def _open_websocket(self) -> ClientProtocol:
        if self._websocket is None or self._websocket.state is not State.OPEN:
            raise BrokerUnreachable(self.url, "the connection ended")
        return self._websocket

    def _receive(self, websocket: ClientProtocol) -> None:
        try:
            data = self.connected().recv(READ_BYTES)
        except OSError as error:
            raise BrokerUnreachable(self.url, error.strerror or f"nothing within {self.seconds:g} s") from None
        if data:
            websocket.receive_data(data)
        else:
            websocket.receive_eof()
        for event in websocket.events_received():
            if isinstance(event, Response):
                self._receive_response(event)
            elif isinstance(event, Frame):
                self._frames.append(event)
        self._flush(websocket)
        if self._refusal is None and websocket.handshake_exc is not None:
            raise NotABroker(self.url, "it does not answer a WebSocket handshake")
        if not data and self._refusal is None and not self._frames:
            raise BrokerUnreachable(self.url, "the connection ended")

    def _flush(self, websocket: ClientProtocol) -> None:
        try:
            for data in websocket.data_to_send():
                if data:
                    self.connected().sendall(data)
        except OSError as error:
            raise BrokerUnreachable(self.url, error.strerror or "it does not read") from None

    def _receive_response(self, response: Response) -> None:
        if response.status_code != 101:
            body = (response.body or b"").decode("utf-8", "replace").strip()
            self._refusal = response.status_code, body or response.reason_phrase

    def _refuse(self, status: int, body: str) -> None:
        """Raise the error that an HTTP status means; :meth:`agree` raises the one for 426, another version."""
        if status in (401, 403):
            raise WrongToken(self.url, body)
        if status in (429, 503):
            raise Refused(self.url, body)
        if status != 426:
            raise NotABroker(self.url, f"it answers HTTP status {status}")
