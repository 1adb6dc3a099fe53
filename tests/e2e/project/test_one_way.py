"""Only dbg_dial makes TLS for connections that it dials, opens a WebSocket, or sends a token: the sources are read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.packages import parsed
from tests.unit.dial.test_one_way import WAYS

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

PRESENTED = "Bearer "
"""What stands before a token that is presented."""

MAY_TAKE_SSL = {"connect_accepted_socket"}
"""Calls that speak TLS with peers that have dialled us."""


def breaches(tree: ast.AST) -> Iterator[str]:
    """Yield what a module does that only dbg_dial may."""
    forbidden = FORBIDDEN - served(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from imported(node)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] == "websockets")
        elif isinstance(node, ast.Attribute) and node.attr in forbidden:
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN:
            yield node.id
        elif isinstance(node, ast.Call):
            yield from called(node)
        elif is_presented(node):
            yield "a token is presented"


def served(tree: ast.AST) -> frozenset[str]:
    """Return names that a module may use, as each call of them says that it is the server."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    wrapped = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "wrap_socket"]
    sides = [keyword for call in wrapped for keyword in call.keywords if keyword.arg == "server_side"]
    is_server = [isinstance(side.value, ast.Constant) and side.value.value is True for side in sides]
    return frozenset({"wrap_socket"}) if wrapped and len(is_server) == len(wrapped) and all(is_server) else frozenset()


def is_presented(node: ast.AST) -> bool:
    """Tell whether this is a text with which a token is presented."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and PRESENTED in node.value


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
    read = parsed(*FORBIDDEN, "websockets", "ssl", "server_hostname", PRESENTED)
    found = {module.place: sorted(breaches(tree)) for module, tree in read if module.package != "dbg_dial"}
    assert {place: names for place, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import ssl; ssl.create_default_context()",
        "from ssl import PROTOCOL_TLS_CLIENT",
        "from websockets.sync.client import connect",
        "import websockets",
        "loop.create_connection(protocol, host, port, ssl=context)",
        "context.wrap_socket(sock)",
        "headers = {'Authorization': f'Bearer {token}'}",
    ],
)
def test_that_reading_finds_one_who_would(source: str) -> None:
    assert list(breaches(ast.parse(source)))


def users_of(*names: str) -> set[str]:
    """Return the modules outside of dbg_dial that import one of these names from it."""
    found = set()
    for module, tree in parsed(*names):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("dbg_dial"):
                continue
            if {name.name for name in node.names} & {*names}:
                found.add(module.place.partition("/")[2].removesuffix(".py").replace("/", "."))
    return {name for name in found if not name.startswith("dbg_dial")}


def test_all_who_dial_are_tried_here() -> None:
    assert users_of("dial_broker", "open_websocket", "BlockingDial") == {
        way.rpartition(".")[0] for way in WAYS if not way.startswith("dbg_dial")
    }


def test_every_check_is_made_where_the_token_is_sent() -> None:
    """Two functions of dbg_dial present a token, after token and certificate were checked; no other one does."""
    presenting = []
    for module, tree in parsed(PRESENTED):
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and presents(function):
                presenting.append((module.place, function.name))
    assert presenting == [
        ("wire/dbg_dial/blocking.py", "_ask"),
        ("wire/dbg_dial/dial.py", "_connect"),
    ]
