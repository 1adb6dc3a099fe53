"""Dial the broker by blocking calls, one step at a time, so that each step can be shown and a failing step explained.

The token is sent only after the certificate was compared. WebSocket frames are read and written here: the completion
of a shell starts a Python at each Tab, and the library for them takes longer to load than the user waits.
"""

from __future__ import annotations

import base64
import json
import math
import os
import socket
import ssl
import struct
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from dbg_dial.endpoint import Endpoint, Reach
from dbg_dial.pin import check_certificate, check_endpoint, client_context, untrusted
from dbg_wire.errors import BrokerUnreachable, DbgError, PeerError, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.limits import KIB, MAX_FRAME_BYTES
from dbg_wire.version import PROTOCOL_MINOR, RELEASE, subprotocol

READ_BYTES = 64 * KIB

STEP_SECONDS = 5.0
"""Seconds of one step at most: a resolver that tries a second server takes that long."""

MAX_HEAD = 16 * KIB
"""Bytes of the answer to the request for a WebSocket at most."""

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
_FINAL, _OPCODE, _MASKED, _LENGTH = 0x80, 0x0F, 0x80, 0x7F

T = TypeVar("T", bound="BlockingDial")


class NotABroker(Refused):
    """The refusal of a peer at ``url`` that is not a broker."""

    sentence = (
        "whoever listens at {url} is no dbg-broker ({reason}); "
        "compare the address with the one that `dbg-broker serve` printed"
    )


class Frame(NamedTuple):
    """A whole message of a WebSocket, or a control frame."""

    opcode: int
    data: bytes


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
        self._addresses: list[tuple[socket.AddressFamily, Any]] = []
        self._socket: socket.socket | None = None
        self._is_pinned = False
        self._is_open = False
        self._refusal = ""
        self._read = bytearray()
        self._message = Frame(TEXT, b"")
        """What has come of a message in several frames."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    # ---------------------------------------------------------------------------------------------------------- steps

    def reach(self) -> None:
        """Take the first steps: dial, and look at the certificate."""
        self.look_up()
        self.connect()
        self.authenticate()

    def authenticate(self) -> None:
        """Have the certificate shown and compared."""
        self.secure()
        self.compare()

    def look_up(self) -> str:
        """Find the host's addresses and return them as text. Raise BrokerUnreachable."""
        try:
            # As bytes, since for text Python loads the tables of international names.
            found = socket.getaddrinfo(self.endpoint.host.encode(), self.endpoint.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise BrokerUnreachable(self.url, f"the host's name can't be resolved: {error.strerror}") from None
        self._addresses = [(family, address) for family, _, _, _, address in found]
        return ", ".join(dict.fromkeys(str(address[0]) for _, address in self._addresses))

    def connect(self) -> None:
        """Connect to the first address that answers. Raise BrokerUnreachable."""
        reason, ends = "no address", self._ends()
        for left, (family, address) in zip(range(len(self._addresses), 0, -1), self._addresses, strict=True):
            connected = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            # A silent address leaves the others their share of the time.
            connected.settimeout(max(0.01, (ends - time.monotonic()) / left))
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
            # As bytes, as above.
            name = self.endpoint.host.encode() if self.endpoint.ca is not None else None
            secured = context.wrap_socket(self._within(self._ends()), server_hostname=name)
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
        shown = check_certificate(self.endpoint, self._certificate(), "its certificate is {shown}, not {pinned}")
        self._is_pinned = True
        return shown

    def present(self, token: str, path: str = "/client") -> None:
        """Ask with this token for an upgrade to a WebSocket at a role's path; see also :meth:`agree`.

        Raise WrongToken or NotABroker. Raise WrongCertificate, with nothing sent, if the peer has not shown the pinned
        certificate.
        """
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}")
        version = ("Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {subprotocol()}")
        ends = self._ask(path, token, *upgrade, *version)
        while (end := self._read.find(b"\r\n\r\n")) < 0:
            is_http = b"HTTP/1.1 ".startswith(self._read[:9])
            if not is_http or len(self._read) > MAX_HEAD or not self._receive(ends):
                raise NotABroker(self.url, "it does not answer a WebSocket handshake")
        status, _, reason = self._read[9:end].partition(b"\r\n")[0].decode("latin-1").partition(" ")
        del self._read[: end + 4]
        self._is_open = status == "101"
        if not self._is_open:
            with suppress(BrokerUnreachable):
                while len(self._read) < MAX_HEAD and self._receive(ends):
                    pass
            self._refused(status, self._read.decode("utf-8", "replace").strip() or reason)

    def agree(self) -> None:
        """Check that both ends speak the same protocol version. Raise WrongVersion."""
        if self._refusal:
            raise WrongVersion(self.url, self._refusal)

    # ------------------------------------------------------------------------------------------------ once it is open

    def connected(self) -> socket.socket:
        """Return the socket. Raise BrokerUnreachable if it is not connected."""
        if self._socket is None:
            raise BrokerUnreachable(self.url, "not connected")
        return self._socket

    def send_text(self, text: str) -> None:
        """Send a message, of less than 64 KiB. Raise BrokerUnreachable."""
        self._send_frame(TEXT, text.encode())

    def send_ping(self) -> None:
        """Send a ping. Raise BrokerUnreachable."""
        self._send_frame(PING, b"dbg")

    def next_frame(self) -> Frame:
        """Return the message or control frame that comes next. Raise BrokerUnreachable or NotABroker."""
        while True:
            first, second = self._take(2)
            length = second & _LENGTH
            if length >= 126:
                form = struct.Struct("!H" if length == 126 else "!Q")
                (length,) = form.unpack(self._take(form.size))
            if length + len(self._message.data) > MAX_FRAME_BYTES:
                raise NotABroker(self.url, "it sends a message that is too long")
            opcode, data = first & _OPCODE, self._take(length)
            if opcode == CLOSE:
                raise BrokerUnreachable(self.url, "the connection ended")
            if opcode > CLOSE:
                return Frame(opcode, data)
            self._message = message = Frame(opcode or self._message.opcode, self._message.data + data)
            if first & _FINAL:
                self._message = Frame(TEXT, b"")
                return message

    # ---------------------------------------------------------------------------------------------------------- inner

    def _certificate(self) -> bytes | None:
        """Return the certificate that the peer has shown, in DER form; None before the handshake."""
        secured = self.connected()
        return secured.getpeercert(binary_form=True) if isinstance(secured, ssl.SSLSocket) else None

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

    def _ask(self, target: str, token: str, *headers: str) -> float:
        """Send a request with a token, and return when its answer has to be there."""
        if not self._is_pinned:
            raise WrongCertificate(self.url, "its certificate was not looked at")
        host, ends = self.url.partition("://")[2], self._ends()
        head = (f"GET {target} HTTP/1.1", f"Host: {host}", *headers, f"Authorization: Bearer {token}", "\r\n")
        self._send("\r\n".join(head).encode(), ends)
        return ends

    def _send_frame(self, opcode: int, data: bytes) -> None:
        if not self._is_open:
            raise BrokerUnreachable(self.url, "the connection ended")
        size, key = len(data), os.urandom(4)
        length = bytes([_MASKED | size]) if size < 126 else struct.pack("!BH", _MASKED | 126, size)
        masked = bytes(byte ^ key[at % 4] for at, byte in enumerate(data))
        self._send(bytes([_FINAL | opcode]) + length + key + masked, self._ends())

    def _send(self, data: bytes, ends: float) -> None:
        try:
            self._within(ends).sendall(data)
        except OSError as error:
            raise BrokerUnreachable(self.url, error.strerror or "it does not read") from None

    def _take(self, count: int) -> bytes:
        while len(self._read) < count:
            # A long message over a slow line takes its time, as long as something comes.
            if not self._is_open or not self._receive(self._ends()):
                raise BrokerUnreachable(self.url, "the connection ended")
        taken = bytes(self._read[:count])
        del self._read[:count]
        return taken

    def _receive(self, ends: float) -> bool:
        """Read what comes until then; False at the end of all. Raise BrokerUnreachable if nothing comes."""
        try:
            data = self._within(ends).recv(READ_BYTES)
        except OSError as error:
            raise BrokerUnreachable(self.url, error.strerror or f"nothing within {self.seconds:g} s") from None
        self._read += data
        return bool(data)

    def _refused(self, status: str, why: str) -> None:
        """Raise the error that an HTTP status means; :meth:`agree` raises the one for 426, another version."""
        if status in ("401", "403"):
            raise WrongToken(self.url, why)
        if status in ("429", "503"):
            raise Refused(self.url, why)
        if status != "426":
            raise NotABroker(self.url, f"it answers HTTP status {status}")
        self._refusal = why or "another version"


def answers(endpoint: Endpoint, seconds: float) -> bool:
    """Return whether a broker with this endpoint's certificate listens at its address; a step takes ``seconds``."""
    with suppress(DbgError, OSError), BlockingDial(endpoint, seconds) as dial:
        dial.reach()
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
        dial.authenticate()
        dial.present(reach.token)
        dial.agree()
        greet = {"type": "greet", "minor": PROTOCOL_MINOR, "release": RELEASE, "name": name}
        for message in (greet, {"type": "subscribe", "once": True}):
            dial.send_text(json.dumps(message))
        while True:
            frame = dial.next_frame()
            said = json.loads(frame.data) if frame.opcode == TEXT else {}
            if said.get("type") == "refusal":
                raise PeerError("a refusal")
            if said.get("type") == "snapshot":
                ranks += said["ranks"]
                if said["last"]:
                    return ranks
