"""There is one way to a broker: pinned, or without TLS with a token that opens nothing later.

All ways that the packages offer are tried with a broker that must not be dialled. The packages' sources are read, too:
only dbg_dial makes TLS for connections that it dials, opens a WebSocket, or sends a token.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import dbg_agent.link.dialling
import dbg_broker.verbs.broker_client
import dbg_client.core.connection
import dbg_dial.blocking
import dbg_dial.dial
import dbg_dial.tcp
from dbg_agent.link.lookup import Lookups
from dbg_dial.dial import AddressInfos, Timing, Wording
from dbg_wire.errors import BadEndpoint
from dbg_wire.finding.endpoint import Endpoint, Reach
from tests.support.impostor import Impostor, Kind
from tests.support.reach import PIN, THROW_AWAY, TOKENS
from tests.support.time_unit import seconds

ROOT = Path(__file__).parents[2]
PACKAGES = ("wire/dbg_wire", "wire/dbg_dial", "agent/dbg_agent", "broker/dbg_broker", "client/dbg_client")

TOKEN = TOKENS["driver"]
TIMING = Timing(opening=seconds(10), ping=10.0, pong=10.0)
WORDING = Wording(wrong_certificate="wrong", no_tls="{why}", no_broker="{why}")

Way = Callable[[Reach], Awaitable[object]]


async def ask_nobody(find: Callable[[], AddressInfos]) -> AddressInfos:
    raise AssertionError("a name server was asked")


async def addresses(reach: Reach) -> object:
    return await dbg_dial.dial.addresses(reach, ask_nobody)


async def open_websocket(reach: Reach) -> object:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(reach.endpoint.host, reach.endpoint.port)
    sock = await dbg_dial.tcp.connected((found[0][0], found[0][4]))
    return await dbg_dial.dial.open_websocket(reach, "/client", sock, TIMING, WORDING)


async def of_a_rank(reach: Reach) -> object:
    return await dbg_agent.link.dialling.dial(reach, "/agent", Lookups())


async def of_a_terminal(reach: Reach) -> object:
    return await dbg_client.core.connection.dial(reach, "me@here", seconds(10))


def step_by_step(line: dbg_dial.blocking.BlockingDial, token: str) -> None:
    with line:
        line.look_up()
        line.connect()
        line.present(token)


def page(line: dbg_dial.blocking.BlockingDial, token: str) -> None:
    with line:
        line.look_up()
        line.connect()
        line.page("/", token)


async def blocking(reach: Reach) -> object:
    line = dbg_dial.blocking.BlockingDial(reach.endpoint, seconds(10))
    return await asyncio.to_thread(step_by_step, line, reach.token)


async def blocking_page(reach: Reach) -> object:
    line = dbg_dial.blocking.BlockingDial(reach.endpoint, seconds(10))
    return await asyncio.to_thread(page, line, reach.token)


async def of_the_brokers_verbs(reach: Reach) -> object:
    line = dbg_broker.verbs.broker_client.BrokerProbe(reach.endpoint)
    return await asyncio.to_thread(step_by_step, line, reach.token)


async def of_a_completion(reach: Reach) -> object:
    return await asyncio.to_thread(
        dbg_dial.blocking.glance, reach, "me@here", connect_seconds=seconds(10), seconds=seconds(10)
    )


WAYS: dict[str, Way] = {
    "dbg_dial.dial.addresses": addresses,
    "dbg_dial.dial.open_websocket": open_websocket,
    "dbg_dial.blocking.BlockingDial": blocking,
    "dbg_dial.blocking.BlockingDial.page": blocking_page,
    "dbg_dial.blocking.glance": of_a_completion,
    "dbg_agent.link.dialling.dial": of_a_rank,
    "dbg_client.core.connection.dial": of_a_terminal,
    "dbg_broker.verbs.broker_client.BrokerProbe": of_the_brokers_verbs,
}
"""All calls that can bring a token to a broker."""

MUST_NOT_BE_DIALLED: dict[str, Callable[[int], Reach]] = {
    "TLS without a pin": lambda port: reach(port, secure=True),
    "TLS without a pin, with a token of --insecure": lambda port: reach(port, secure=True, token=THROW_AWAY["driver"]),
    "no TLS, with a lasting token": lambda port: reach(port, secure=False),
    "no TLS, with a pin that nobody looks at": lambda port: reach(
        port, secure=False, fingerprint=PIN, token=THROW_AWAY["driver"]
    ),
}


def reach(port: int, *, secure: bool, fingerprint: str | None = None, token: str = TOKEN) -> Reach:
    endpoint = Endpoint(host="127.0.0.1", port=port, secure=secure, fingerprint=fingerprint)
    return Reach(endpoint=endpoint, token=token, sources={})


@pytest.mark.parametrize("kind", ["http", "tls"])
@pytest.mark.parametrize("what", MUST_NOT_BE_DIALLED)
@pytest.mark.parametrize("way", WAYS)
async def test_no_way_leads_to_a_broker_that_is_not_known(way: str, what: str, kind: Kind) -> None:
    with Impostor(0, kind) as impostor:
        with pytest.raises(BadEndpoint):
            await WAYS[way](MUST_NOT_BE_DIALLED[what](impostor.port))
        await asyncio.to_thread(impostor.wait_for_all)
    assert b"".join(impostor.heard()) == b""


async def test_answers_says_no_for_tls_without_a_pin() -> None:
    with Impostor(0, "tls") as impostor:
        endpoint = reach(impostor.port, secure=True).endpoint
        assert not await asyncio.to_thread(dbg_broker.verbs.broker_client.answers, endpoint, TOKEN, seconds(10))
        await asyncio.to_thread(impostor.wait_for_all)
    assert impostor.heard() == []


# The sources

WEBSOCKETS_OF_THOSE_WHO_DIAL = (
    "websockets.client",
    "websockets.asyncio.client",
    "websockets.sync",
    "websockets.legacy",
)
FORBIDDEN = {
    *("PROTOCOL_TLS_CLIENT", "PROTOCOL_TLS", "create_default_context", "_create_unverified_context"),
    *("_create_default_https_context", "wrap_socket", "wrap_bio", "start_tls", "get_server_certificate"),
    *("HTTPSConnection", "urlopen", "ClientProtocol", "unix_connect"),
}
"""Names that only a package that dials by TLS or WebSocket needs."""

DIALS_NATS = "broker/dbg_broker/net/bus/connection.py"
"""Where a broker dials what is no broker: by TLS with the authorities of the host, and with no token of ours."""

MAY_TAKE_SSL = {"Server"}
"""Calls that speak TLS with peers that have dialled us."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def breaches(tree: ast.AST) -> Iterator[str]:
    """Yield what a module does that only dbg_dial may."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from imported(node)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] == "websockets")
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN - served(tree):
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN:
            yield node.id
        elif isinstance(node, ast.Call):
            yield from called(node)
        elif is_presented(node):
            yield "a token is presented"


@cache
def served(tree: ast.AST) -> frozenset[str]:
    """Return names that a module may use, as each call of them says that it is the server."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    wrapped = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "wrap_socket"]
    sides = [keyword for call in wrapped for keyword in call.keywords if keyword.arg == "server_side"]
    is_server = [isinstance(side.value, ast.Constant) and side.value.value is True for side in sides]
    return frozenset({"wrap_socket"}) if wrapped and len(is_server) == len(wrapped) and all(is_server) else frozenset()


def is_presented(node: ast.AST) -> bool:
    """Tell whether this is a text with which a token is presented."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "Bearer " in node.value


def presents(function: ast.AST) -> bool:
    return any(is_presented(node) for node in ast.walk(function))


def imported(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    names = {name.name for name in node.names}
    if module.startswith(WEBSOCKETS_OF_THOSE_WHO_DIAL):
        yield module
    if module in ("websockets", "websockets.asyncio") and names & {"connect", "client", "sync"}:
        yield module
    yield from names & FORBIDDEN


def called(node: ast.Call) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = {keyword.arg for keyword in node.keywords}
    if given & {"ssl", "ssl_context", "server_hostname"} and name not in MAY_TAKE_SSL:
        yield f"{name}(ssl=…)"
    if name == "SSLContext" and ast.unparse(node) != "ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)":
        yield "SSLContext"


def test_nobody_else_dials() -> None:
    found = {path: sorted(breaches(tree)) for path, tree in sources() if not path.startswith("wire/dbg_dial/")}
    assert {path: names for path, names in found.items() if names} == {DIALS_NATS: ["create_default_context"]}


@pytest.mark.parametrize(
    "source",
    [
        "import ssl; ssl.create_default_context()",
        "import ssl; ssl.SSLContext()",
        "from ssl import PROTOCOL_TLS_CLIENT",
        "from websockets.asyncio.client import connect",
        "from websockets.sync.client import connect",
        "from websockets import connect",
        "import websockets",
        "loop.create_connection(protocol, host, port, ssl=context)",
        "asyncio.open_connection(host, port, ssl=True)",
        "context.wrap_socket(sock)",
        "headers = {'Authorization': f'Bearer {token}'}",
    ],
)
def test_that_reading_finds_one_who_would(source: str) -> None:
    assert list(breaches(ast.parse(source)))


def users_of(*names: str) -> set[str]:
    """Return the modules outside of dbg_dial that import one of these names from it."""
    found = set()
    for path, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("dbg_dial"):
                continue
            if {name.name for name in node.names} & {*names}:
                found.add(path.partition("/")[2].removesuffix(".py").replace("/", "."))
    return {name for name in found if not name.startswith("dbg_dial")}


def test_all_who_dial_are_tried_here() -> None:
    assert users_of("open_websocket", "BlockingDial") == {
        way.rpartition(".")[0] for way in WAYS if not way.startswith("dbg_dial")
    }


def test_every_check_is_made_where_the_token_is_sent() -> None:
    """Two functions of dbg_dial present a token, after token and certificate were checked; no other one does."""
    presenting = []
    for path, tree in sources():
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and presents(function):
                presenting.append((path, function.name))
    assert presenting == [
        ("wire/dbg_dial/blocking.py", "_ask"),
        ("wire/dbg_dial/dial.py", "_connect"),
    ]
