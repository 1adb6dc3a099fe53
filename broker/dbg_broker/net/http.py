"""What the broker answers to HTTP requests: which of them become a WebSocket, and two pages for monitoring. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple

from websockets.utils import accept_key

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import PATHS, Tokens, may_open
from dbg_broker.net.loop import LoopTimes
from dbg_broker.net.metrics import Gauges, Meters, metrics
from dbg_broker.net.places import Capacity
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.finding.endpoint import MIN_TOKEN
from dbg_wire.version import PROTOCOL_MAJOR, subprotocol

TEXT = "text/plain; charset=utf-8"
METRICS = "/metrics"
PAGES = frozenset({"/healthz", METRICS})
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

MAX_HEAD_BYTES = 16 * limits.KIB
"""Bytes of a request's line and headers: a rank's or terminal's has 400, and a browser's with its cookies fits."""

MAX_HEADERS = 128
"""Headers of a request: a rank's has 9, a browser's 20."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """HTTP answer; ``body`` is one sentence, or a page."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = TEXT


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The parts of a request that decide whether it may become a WebSocket."""

    path: str
    authorization: str | None
    origin: str | None
    subprotocols: Sequence[str]
    method: str = "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """How many ranks, terminals that may type and watchers are connected."""

    ranks: int
    drivers: int
    watchers: int


def admit(
    upgrade: Upgrade, tokens: Tokens, connected: Connected, capacity: Capacity, now: float
) -> Bearer | HttpAnswer:
    """Return who may have a WebSocket for this request, or the answer that refuses it.

    A terminal that may type is admitted even if watchers take all other places: a watcher is closed for it then.
    ``now`` is in seconds since the epoch.
    """
    path = path_of(upgrade.path)
    if path not in PATHS:
        return not_found(path)
    if upgrade.origin is not None:
        # Only browsers send an Origin: a page that a user visits must not reach the broker on the user's behalf.
        return HttpAnswer(403, "the broker does not talk to web pages (the request has an Origin)\n")
    bearer = known_bearer(upgrade, tokens, now)
    if isinstance(bearer, HttpAnswer):
        return bearer
    role = bearer.role
    if not may_open(role, path):
        return HttpAnswer(403, f"the token is a {role.value}'s, and {path} is not for {role.value}s\n")
    if subprotocol() not in upgrade.subprotocols:
        return _wrong_version(upgrade.subprotocols)
    full = _full(role, connected, capacity)
    return HttpAnswer(503, f"the broker is full: {full}\n") if full else bearer


def known_bearer(upgrade: Upgrade, tokens: Tokens, now: float) -> Bearer | HttpAnswer:
    """Return who a request's token stands for, or the answer to a token that is unknown or has expired."""
    bearer = tokens.bearer_of(upgrade.authorization)
    if bearer is None:
        why = "this broker does not know the token; `dbg-broker token` on its host prints the right one\n"
    elif bearer.is_expired(now):
        why = f"the token{f' {bearer.name}' if bearer.name else ''} has expired; ask its maker for another one\n"
    else:
        return bearer
    return HttpAnswer(401, why, {"WWW-Authenticate": "Bearer"})


def may_see_figures(upgrade: Upgrade, tokens: Tokens, now: float) -> HttpAnswer | None:
    """Return the answer that refuses the counters of this moment to the bearer of a token; None if they may be seen.

    They tell when somebody types, so that they are for terminals that may see all jobs.
    """
    bearer = known_bearer(upgrade, tokens, now)
    if isinstance(bearer, Bearer) and (bearer.role is Role.RANK or bearer.job is not None):
        return HttpAnswer(403, f"{bearer.shown} may not see the figures of all jobs; leave the token out\n")
    return bearer if isinstance(bearer, HttpAnswer) else None


def _full(role: Role, connected: Connected, capacity: Capacity) -> str:
    """Return why there is no place for one more in this role, empty if there is one."""
    if role is Role.RANK and connected.ranks >= capacity.ranks:
        return f"{connected.ranks} ranks are connected, and it takes {capacity.ranks}{capacity.why}"
    if role is Role.WATCHER and connected.watchers >= capacity.watchers:
        return f"{connected.watchers} watchers are connected, and it takes {capacity.watchers}{capacity.why}"
    if role is Role.DRIVER and connected.drivers >= capacity.clients:
        return f"{connected.drivers} terminals are connected, and it takes {capacity.clients}{capacity.why}"
    return ""


def _wrong_version(offered: Sequence[str]) -> HttpAnswer:
    majors = [found[1] for name in offered if (found := re.fullmatch(r"dbg\.v([0-9]{1,6})", name))]
    theirs = f"protocol version {' and '.join(majors)}" if majors else "no version of the protocol"
    return HttpAnswer(
        426,
        f"this broker speaks protocol version {PROTOCOL_MAJOR}, and you offer {theirs}; "
        "install the same dbg-broker release on both ends\n",
        {"Upgrade": "websocket", "Sec-WebSocket-Protocol": subprotocol()},
    )


def path_of(target: str) -> str:
    """Return a request's path without its query."""
    return target.partition("?")[0]


def path_shown(target: str) -> str:
    """Return a request's path for the log, shorter than a token and without query and fragment, which may hold one."""
    return printable(re.split("[?#]", target, maxsplit=1)[0], MIN_TOKEN - 1)


def not_found(path: str) -> HttpAnswer:
    """Return the answer to a path that isn't there."""
    return HttpAnswer(404, f"{printable(path)} is not here; a dbg-broker has /agent, /client, /healthz and /metrics\n")


def too_many(what: str, seconds: float) -> HttpAnswer:
    """Return the answer to an address of which too much of something came."""
    return HttpAnswer(
        429,
        f"too many {what} came from your address; try again in {seconds:g} s\n",
        {"Retry-After": f"{math.ceil(seconds)}"},
    )


def come_later(waiting: int, seconds: float) -> HttpAnswer:
    """Return the answer to a newcomer for whom there is no time now, and who has a slot after some seconds."""
    later = math.ceil(seconds)
    return HttpAnswer(
        503, f"{waiting} ranks are on their way in; come again in {later} s\n", {"Retry-After": f"{later}"}
    )


def method_not_allowed(method: str) -> HttpAnswer:
    """Return the answer to a request that is neither GET nor HEAD."""
    return HttpAnswer(405, f"{printable(method, 20)} is not for this broker\n", {"Allow": "GET, HEAD"})


def page(target: str, meters: Meters, gauges: Gauges, times: LoopTimes) -> HttpAnswer | None:
    """Return the page at a path, or None if there is none."""
    path = path_of(target)
    if path == "/healthz":
        return HttpAnswer(200, "ok\n")
    if path == METRICS:
        return HttpAnswer(200, metrics(meters, gauges, times), content_type=PROMETHEUS)
    return None


_LINE = re.compile(rb"GET ([\x21-\x7e]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")
"""16 bytes in base64."""


class NoRequest(Exception):
    """The bytes are no request that the broker reads; the text says why."""


class Head(NamedTuple):
    """The head of a request.

    ``lines`` are the line and headers of a GET, and ``rest`` the bytes after them; both are empty for other methods.
    """

    method: str
    target: str
    lines: bytes = b""
    rest: bytes = b""


def read_head(data: bytes) -> Head | None:
    """Return the head of a request, or None if it is not complete. Raise NoRequest if it can't become one."""
    method, space, after = data.partition(b" ")
    if not (method.isalpha() and method.isupper() and len(method) < 16) and (space or len(method) >= 8):
        raise NoRequest("it is no HTTP request")
    if b"\r\n\r\n" not in after:
        if len(data) > MAX_HEAD_BYTES:
            raise NoRequest("its request has no end")
        return None
    name, target = method.decode("ascii"), after.partition(b" ")[0].decode("ascii", "replace")
    if name != "GET":
        return Head(name, target)
    head, end, rest = data.partition(b"\r\n\r\n")
    return Head(name, target, head + end, rest)


class Request(NamedTuple):
    """A GET: its target, the minor version of its HTTP, and its headers by their names in lower case."""

    target: str
    minor: int
    headers: dict[str, list[str]]

    def all(self, name: str) -> list[str]:
        """Return the values of a header, in their order."""
        return self.headers.get(name, [])

    def items(self, name: str) -> list[str]:
        """Return the items of a header whose values are lists."""
        return [item.strip(" \t") for value in self.all(name) for item in value.split(",")]


def read_request(lines: bytes) -> Request:
    """Return the request in the lines of a :class:`Head`. Raise NoRequest if it is not well formed, or has a body."""
    first, *rest = lines.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _LINE.fullmatch(first)
    if found is None:
        raise NoRequest("its request is no WebSocket handshake")
    if len(rest) > MAX_HEADERS:
        raise NoRequest(f"its request has more than {MAX_HEADERS} headers")
    headers: dict[str, list[str]] = {}
    for line in rest:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise NoRequest("its request has a line that is no header")
        value = header[2].strip(b" \t").decode("latin-1")
        headers.setdefault(header[1].decode("ascii").lower(), []).append(value)
    if "transfer-encoding" in headers or headers.get("content-length", ["0"]) != ["0"]:
        raise NoRequest("its request has a body")
    return Request(found[1].decode("ascii"), int(found[2]), headers)


def upgrade_of(request: Request) -> Upgrade:
    """Return what decides whether a request may become a WebSocket."""
    authorizations, origins = request.all("authorization"), request.all("origin")
    return Upgrade(
        path=request.target,
        # Of two headers neither counts, as it is not known which of them is meant.
        authorization=authorizations[0] if len(authorizations) == 1 else None,
        origin=origins[0] if origins else None,
        subprotocols=request.items("sec-websocket-protocol"),
    )


def switching(request: Request) -> bytes | HttpAnswer:
    """Return the bytes that make a request's connection a WebSocket, or the answer to one that asks for none."""
    if request.minor == 0:
        return HttpAnswer(505, "a WebSocket needs HTTP/1.1\n")
    options = [option.lower() for option in request.items("connection")]
    if "upgrade" not in options or [name.lower() for name in request.items("upgrade")] != ["websocket"]:
        return HttpAnswer(426, "only WebSockets are here; the client is dbg-attach\n", {"Upgrade": "websocket"})
    keys = request.all("sec-websocket-key")
    if len(keys) != 1 or _KEY.fullmatch(keys[0]) is None:
        return HttpAnswer(400, "the Sec-WebSocket-Key is not 16 bytes in base64\n")
    if request.all("sec-websocket-version") != ["13"]:
        return HttpAnswer(400, "the Sec-WebSocket-Version is not 13\n")
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(keys[0])}\r\nSec-WebSocket-Protocol: {subprotocol()}\r\n\r\n"
    ).encode()


def answer_bytes(answer: HttpAnswer, *, with_body: bool = True) -> bytes:
    """Return an answer as it goes over the wire, after which the connection ends."""
    body = answer.body.encode()
    headers = {"Connection": "close", "Content-Length": str(len(body)), "Content-Type": answer.content_type}
    lines = [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
    head = "\r\n".join([f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *lines, "", ""])
    return head.encode("latin-1", "replace") + (body if with_body else b"")
