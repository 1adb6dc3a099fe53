"""Only dbg_dial presents a token, and all who dial are tried: the sources are read."""

from __future__ import annotations

import ast
import re

from tests.support.packages import modules, parsed
from tests.unit.dial.test_one_way import WAYS

PRESENTED = "Bearer "
"""What stands before a token that is presented."""

DIALS = re.compile(
    r"\b(?:PROTOCOL_TLS_CLIENT|PROTOCOL_TLS|create_default_context|_create_unverified_context|start_tls|HTTPSConnection"
    r"|get_server_certificate|urlopen|ClientProtocol|unix_connect|server_hostname|websockets\.(?:\w+\.)?client"
    r"|websockets\.sync)\b"
)
"""What only a package uses that dials by TLS or WebSocket."""


def presents(function: ast.AST) -> bool:
    """Return True if the function has a text with which a token is presented."""
    return any(PRESENTED in str(node.value) for node in ast.walk(function) if isinstance(node, ast.Constant))


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


def test_only_dbg_dial_opens_connections() -> None:
    found = {
        module.place: DIALS.findall(module.path.read_text()) for module in modules() if module.package != "dbg_dial"
    }
    assert {place: names for place, names in found.items() if names} == {}


def test_each_function_that_dials_is_tested_here() -> None:
    assert users_of("dial_broker", "open_websocket", "first_to_connect") == {
        way.rpartition(".")[0] for way in WAYS if not way.startswith("dbg_dial")
    }


def test_only_one_method_sends_the_token() -> None:
    """One method presents a token, after the certificate was checked."""
    presenting = []
    for module, tree in parsed(PRESENTED):
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and presents(function):
                presenting.append((module.place, function.name))
    assert presenting == [("wire/dbg_dial/dial.py", "present")]
