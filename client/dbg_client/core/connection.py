"""One connection to the broker, and the only place of the client that opens a socket.

The broker proves itself first: its certificate is compared with the pinned fingerprint when TLS stands and before a
byte of HTTP, and so the token, is sent.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import ssl
from functools import partial
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from dbg_wire import limits
from dbg_wire.codec import Input, Output, UnknownType, decode, decode_data, encode, encode_data
from dbg_wire.endpoint import Endpoint, Reach, fingerprint_of, same_fingerprint
from dbg_wire.errors import BrokerUnreachable, DbgError, PeerError, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.messages import Greet, Message, Refusal, Sender, Welcome
from dbg_wire.records import fitted
from dbg_wire.version import PROTOCOL_MINOR, RELEASE, subprotocol

from .deadline import in_thread, within

PING_SECONDS = 2.0
"""Seconds between two pings: how soon a terminal notices that its network is gone."""

DEAD_SECONDS = 30.0
"""Seconds of silence that end a connection: a broker of thousands of ranks may be late, this is a dead link."""

CONNECT_SECONDS = 2.0
"""Seconds for the broker's kernel to take a connection where another attempt follows: the kernel here asks ever more
rarely, and a new attempt asks at once."""

OUTBOX = 1024
"""Messages that may wait for the socket; keys are bounded before they get here, so more means the broker is stuck."""


_LOGGER = logging.getLogger("dbg_client.core.connection")
"""What the library logs is not for people, and would be drawn over the debugger."""
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


class Disconnected(Exception):
    """Say that the connection ended, and why; part of every connection's life and never shown as an error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Connection:
    """Exchange messages with one broker that has said welcome.

    Belongs to one event loop. :meth:`send` never waits: a broker that stops reading fills the outbox, and then the
    connection is closed, so that the keyboard is never stuck behind it.
    """

    def __init__(self, websocket: _Heard, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._websocket = websocket
        self._outbox: asyncio.Queue[str | bytes] = asyncio.Queue(OUTBOX)
        self._sender = asyncio.create_task(self._send_outbox())
        self._loop = asyncio.get_running_loop()
        self._pinged_at: float | None = None
        self._pinging: asyncio.Future[Any] | None = None

    def send(self, item: Message | Input) -> None:
        """Queue a message or keys for the broker; lost if the connection ends before they are out."""
        frame = encode_data(item) if isinstance(item, Input) else encode(item)
        try:
            self._outbox.put_nowait(frame)
        except asyncio.QueueFull:
            self._websocket.transport.abort()

    async def receive(self) -> Message | Output:
        """Return what the broker says next; safe to cancel.

        Raises Disconnected when the connection has ended, and PeerError if the broker breaks the protocol. Messages
        of a newer minor are skipped.
        """
        while True:
            try:
                frame = await self._websocket.recv()
            except ConnectionClosed as closed:
                raise Disconnected(_why_closed(closed)) from None
            if isinstance(frame, bytes):
                data = decode_data(frame, Sender.AGENT)
                if isinstance(data, Output):
                    return data
                continue
            try:
                return decode(frame, Sender.BROKER)
            except UnknownType:
                continue

    @property
    def unheard(self) -> float:
        """Return for how many seconds the broker owes an answer to a ping; 0 if it owes none."""
        if self._pinged_at is None or self._websocket.heard_at >= self._pinged_at:
            return 0.0
        return self._loop.time() - self._pinged_at

    def ping_when_due(self) -> None:
        """Ask the broker for a sign of life, unless it gave one within PING_SECONDS or owes one."""
        now = self._loop.time()
        if self.unheard or now - max(self._pinged_at or 0.0, self._websocket.heard_at) < PING_SECONDS:
            return
        self._pinged_at = now
        self._stop_pinging()
        # Not waited for: where nothing goes out any more, it would be for ever.
        self._pinging = asyncio.ensure_future(self._websocket.ping())
        self._pinging.add_done_callback(_ignore)

    def abort(self) -> None:
        """End the connection at once."""
        self._websocket.transport.abort()

    async def close(self) -> None:
        """Send what is queued and close; at most CLOSE_SECONDS each, and never an error."""
        self._stop_pinging()
        try:
            await within(limits.CLOSE_SECONDS, self._outbox.join())
        except asyncio.TimeoutError:
            self._websocket.transport.abort()
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)
        await self._websocket.close()

    def _stop_pinging(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()

    async def _send_outbox(self) -> None:
        while True:
            frame = await self._outbox.get()
            try:
                await self._websocket.send(frame)
            except ConnectionClosed:
                pass  # whoever receives is told
            finally:
                self._outbox.task_done()


async def dial(reach: Reach, name: str, seconds: float, *, spent: float = 0.0, again: bool = False) -> Connection:
    """Connect, greet as ``name``, and return the connection once the broker has said welcome.

    Of ``seconds``, so many are ``spent`` already: on finding out where the broker is.
    With ``again`` another attempt follows if nobody is there, so this one takes no longer than that needs to be known.
    Raises BrokerUnreachable if nobody answers within ``seconds``, WrongCertificate, WrongToken, WrongVersion or
    another Refused if somebody does and this is no use.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds - spent
    try:
        sock = await _connected(reach.endpoint, end, CONNECT_SECONDS if again else seconds)
        websocket = await _opened(reach, sock, max(0.0, end - loop.time()))
    except Exception as error:
        raise _explained(error, reach.endpoint, seconds) from None
    connection = Connection(websocket, reach.endpoint)
    try:
        await _greet(connection, websocket, name, seconds)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _connected(endpoint: Endpoint, end: float, patience: float) -> socket.socket:
    """Return a socket that the broker's kernel has taken, after ``patience`` seconds for each address at most."""
    loop = asyncio.get_running_loop()
    problem: Exception = OSError("its name has no address")
    found = await _addresses(endpoint, max(0.0, end - loop.time()))
    for left, (family, address) in zip(range(len(found), 0, -1), found, strict=True):
        # The protocol is named, since asyncio sends small frames at once only where it is.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            sock.setblocking(False)
            # Where an address of the link's scope has a zone, it is in the number behind it as well.
            name = (str(address[0]).partition("%")[0], *address[1:])
            await within(min(patience, max(0.0, end - loop.time()) / left), loop.sock_connect(sock, name))
        except (OSError, asyncio.TimeoutError) as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


async def _addresses(endpoint: Endpoint, seconds: float) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    find = partial(socket.getaddrinfo, endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    try:
        found = find(flags=socket.AI_NUMERICHOST)
    except OSError:
        found = await in_thread(find, seconds)
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


async def _opened(reach: Reach, sock: socket.socket, seconds: float) -> _Heard:
    """Return a WebSocket over a connected socket, which is the caller's no more."""
    try:
        return await connect(  # type: ignore[return-value] # what create_connection makes
            f"{reach.endpoint.url}/client",
            create_connection=_pinned_connection(reach.endpoint),
            additional_headers={"Authorization": f"Bearer {reach.token}"},
            subprotocols=[Subprotocol(subprotocol())],
            compression=None,
            max_size=limits.MAX_FRAME_BYTES,
            open_timeout=seconds,
            ping_interval=DEAD_SECONDS / 3,
            ping_timeout=DEAD_SECONDS * 2 / 3,
            close_timeout=limits.CLOSE_SECONDS,
            sock=sock,
            logger=_LOGGER,
            **_options(reach.endpoint),
        )
    except BaseException:
        # After the transport, if it has one by now, has closed it.
        asyncio.get_running_loop().call_soon(sock.close)
        raise


async def _greet(connection: Connection, websocket: _Heard, name: str, seconds: float) -> None:
    url = connection.endpoint.url
    if websocket.subprotocol != subprotocol():
        raise WrongVersion(url, f"it did not agree to {subprotocol()}")
    connection.send(fitted(Greet, minor=PROTOCOL_MINOR, release=RELEASE, name=name))
    try:
        answer = await within(seconds, connection.receive())
    except asyncio.TimeoutError:
        raise BrokerUnreachable(url, f"it let us in and then was silent for {seconds:g} s") from None
    except Disconnected as ended:
        raise BrokerUnreachable(url, ended.reason) from None
    if isinstance(answer, Refusal):
        raise Refused(url, answer.text)
    if not isinstance(answer, Welcome):
        raise PeerError("a broker that does not begin with welcome")


def _options(endpoint: Endpoint) -> dict[str, Any]:
    options: dict[str, Any] = {}
    # From websockets 15 on a proxy is taken from the environment; before that there was none, nor the option.
    if "proxy" in inspect.signature(connect.__init__).parameters:
        options["proxy"] = None
    if endpoint.secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The pin is the check: neither names nor authorities have a say.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        options["ssl"] = context
    return options


class _Heard(ClientConnection):
    """Be a connection of websockets that says when it was heard last, on the event loop's clock."""

    heard_at = 0.0

    def data_received(self, data: bytes) -> None:
        """Take bytes from the broker."""
        self.heard_at = self.loop.time()
        super().data_received(data)


def _ignore(done: asyncio.Future[Any]) -> None:
    """Take what became of a ping, which whoever receives hears as well."""
    if not done.cancelled():
        done.exception()


def _pinned_connection(endpoint: Endpoint) -> type[_Heard]:
    class PinnedConnection(_Heard):
        """Look at the certificate before the opening request, which holds the token, is sent."""

        async def handshake(self, *args: Any, **kwargs: Any) -> None:
            if endpoint.secure:
                _check_certificate(self.transport.get_extra_info("ssl_object"), endpoint)
            await super().handshake(*args, **kwargs)

    return PinnedConnection


def _check_certificate(tls: ssl.SSLObject | None, endpoint: Endpoint) -> None:
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    if not certificate or endpoint.fingerprint is None:
        raise WrongCertificate(endpoint.url, "it shows no certificate")
    shown = fingerprint_of(certificate)
    if not same_fingerprint(shown, endpoint.fingerprint):
        raise WrongCertificate(endpoint.url, f"its certificate is {shown}")


def _explained(error: Exception, endpoint: Endpoint, seconds: float) -> Exception:
    url = endpoint.url
    if isinstance(error, DbgError):
        return error
    if isinstance(error, InvalidStatus):
        return _explained_status(error, url)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return BrokerUnreachable(url, f"no answer within {seconds:g} s")
    if isinstance(error, ssl.SSLError):
        return WrongCertificate(url, f"it does not speak TLS with us: {error.reason or error}")
    if isinstance(error, OSError):
        return BrokerUnreachable(url, _why_unreachable(error))
    if isinstance(error, EOFError) or isinstance(error.__cause__, EOFError):
        return BrokerUnreachable(url, "it hung up")
    if isinstance(error, (InvalidHandshake, WebSocketException, ValueError)):
        return Refused(url, f"it is no dbg-broker ({error})")
    return error


def _why_unreachable(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "unknown host"
    # asyncio puts addresses into strerror, and several of them into a text without a number.
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__


def _explained_status(error: InvalidStatus, url: str) -> Refused:
    status = error.response.status_code
    body = bytes(error.response.body or b"").decode("utf-8", "replace").strip()
    said = body or f"HTTP status {status}"
    if status in (401, 403):
        return WrongToken(url, said)
    if status == 426:
        return WrongVersion(url, said)
    return Refused(url, said)


def _why_closed(closed: ConnectionClosed) -> str:
    frame = closed.rcvd
    if frame is None:
        return "the connection broke"
    if frame.reason:
        return frame.reason
    return "it shut down" if frame.code == 1001 else f"it closed the connection with code {frame.code}"
