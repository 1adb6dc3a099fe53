"""Answers to HTTP requests: upgrades to a WebSocket, refusals, and two pages for monitoring. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from dbg_broker.home.tokens import PATHS, Bearer, Role, Tokens, may_open
from dbg_broker.net.handshake_slots import Capacity
from dbg_dial.endpoint import MIN_TOKEN
from dbg_wire import PROTOCOL_MAJOR, subprotocol
from dbg_wire.errors import printable

TEXT = "text/plain; charset=utf-8"
METRICS = "/metrics"
PAGES = frozenset({"/healthz", METRICS})
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """HTTP answer; ``body`` is one sentence, or a page."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = TEXT


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Parts of a request that decide whether it may become a WebSocket."""

    path: str
    authorization: str | None
    origin: str | None
    subprotocols: Sequence[str]
    method: str = "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Numbers of connected ranks, terminals that may type, and watchers."""

    ranks: int
    drivers: int
    watchers: int


def admit(
    upgrade: Upgrade, tokens: Tokens, connected: Connected, capacity: Capacity, now: float
) -> Bearer | HttpAnswer:
    """Return the bearer if the request may become a WebSocket; otherwise return the answer that refuses it.

    A terminal that may type is admitted even if watchers occupy all other slots: the caller then disconnects a watcher.
    ``now`` is in seconds since the epoch.
    """
    path = path_of(upgrade.path)
    if path not in PATHS:
        return not_found(path)
    if upgrade.origin is not None:
        # Only browsers send an Origin: a page that a user visits must not connect to the broker on the user's behalf.
        return HttpAnswer(403, "the broker does not accept requests of web pages (the request has an Origin)\n")
    bearer = known_bearer(upgrade, tokens, now)
    if isinstance(bearer, HttpAnswer):
        return bearer
    role = bearer.role
    if not may_open(role, path):
        return HttpAnswer(403, f"the token has role {role.value}, and {path} is not for a {role.value}\n")
    if subprotocol() not in upgrade.subprotocols:
        return _wrong_version(upgrade.subprotocols)
    full = _full(role, connected, capacity)
    return HttpAnswer(503, f"the broker is full: {full}\n") if full else bearer


def known_bearer(upgrade: Upgrade, tokens: Tokens, now: float) -> Bearer | HttpAnswer:
    """Return the bearer of a request's token, or the answer if the token is unknown or has expired."""
    bearer = tokens.bearer_of(upgrade.authorization)
    if bearer is None:
        why = "this broker does not know the token; `dbg-broker token` on its host prints the right one\n"
    elif bearer.is_expired(now):
        why = f"the token{f' {bearer.name}' if bearer.name else ''} has expired; ask its issuer for a new one\n"
    else:
        return bearer
    return HttpAnswer(401, why, {"WWW-Authenticate": "Bearer"})


def may_see_figures(upgrade: Upgrade, tokens: Tokens, now: float) -> HttpAnswer | None:
    """Return None if a token's bearer may see the current metrics; otherwise return the answer that refuses them.

    Current metrics reveal when somebody types, so they are only for terminals that may see all jobs.
    """
    bearer = known_bearer(upgrade, tokens, now)
    if isinstance(bearer, Bearer) and (bearer.role is Role.RANK or bearer.job is not None):
        return HttpAnswer(403, f"{bearer.shown} may not see the metrics of all jobs; send no token\n")
    return bearer if isinstance(bearer, HttpAnswer) else None


def _full(role: Role, connected: Connected, capacity: Capacity) -> str:
    """Return why there is no slot for another peer in this role, or an empty string if there is one."""
    if role is Role.RANK and connected.ranks >= capacity.ranks:
        return f"{connected.ranks} ranks are connected, and it accepts {capacity.ranks}{capacity.why}"
    if role is Role.WATCHER and connected.watchers >= capacity.watchers:
        return f"{connected.watchers} watchers are connected, and it accepts {capacity.watchers}{capacity.why}"
    # For a terminal that may type, watchers are not counted: if necessary, a watcher is disconnected.
    terminals = connected.drivers + (connected.watchers if role is Role.WATCHER else 0)
    if role is not Role.RANK and terminals >= capacity.clients:
        return f"{terminals} terminals are connected, and it accepts {capacity.clients}{capacity.why}"
    return ""


def _wrong_version(offered: Sequence[str]) -> HttpAnswer:
    majors = [found[1] for name in offered if (found := re.fullmatch(r"dbg\.v([0-9]{1,6})", name))]
    theirs = f"protocol version {' and '.join(majors)}" if majors else "no version of the protocol"
    return HttpAnswer(
        426,
        f"this broker uses protocol version {PROTOCOL_MAJOR}, and you offer {theirs}; "
        "install the same dbg-broker release on both ends\n",
        {"Upgrade": "websocket", "Sec-WebSocket-Protocol": subprotocol()},
    )


def path_of(target: str) -> str:
    """Return a request's path without its query."""
    return target.partition("?")[0]


def path_shown(target: str) -> str:
    """Return a request's path for the log.

    It can't contain a token: it is shorter than a token, and query and fragment are removed.
    """
    return printable(re.split("[?#]", target, maxsplit=1)[0], MIN_TOKEN - 1)


def not_found(path: str) -> HttpAnswer:
    """Return the answer for an unknown path."""
    return HttpAnswer(404, f"{printable(path)} is unknown; a dbg-broker has /agent, /client, /healthz and /metrics\n")


def method_not_allowed(method: str) -> HttpAnswer:
    """Return the answer for a request that is neither GET nor HEAD."""
    return HttpAnswer(405, f"{printable(method, 20)} is not allowed\n", {"Allow": "GET, HEAD"})


def upgrade_of(request: Request) -> Upgrade:
    """Return the parts of a request that decide whether it may become a WebSocket."""
    headers = request.headers
    authorizations, origins = headers.get_all("Authorization"), headers.get_all("Origin")
    return Upgrade(
        path=request.path,
        # If there are two headers, ignore both, because it is unknown which one is meant.
        authorization=authorizations[0] if len(authorizations) == 1 else None,
        origin=origins[0] if origins else None,
        subprotocols=[name.strip() for value in headers.get_all("Sec-WebSocket-Protocol") for name in value.split(",")],
        # In older versions of the library, which accept only GET, a request has no method.
        method=getattr(request, "method", "GET"),
    )


def response_of(answer: HttpAnswer, *, with_body: bool = True) -> Response:
    """Return an answer in the library's form; the connection ends after it."""
    body = answer.body.encode()
    headers = {"Connection": "close", "Content-Length": str(len(body)), "Content-Type": answer.content_type}
    return Response(
        answer.status,
        HTTPStatus(answer.status).phrase,
        Headers({**headers, **answer.headers}),
        body if with_body else b"",
    )
