"""The JSON schema of the Debug Adapter Protocol, which judges what an adapter sends.

``debugAdapterProtocol.json`` is that of https://microsoft.github.io/debug-adapter-protocol (Microsoft, MIT License),
as debugpy 1.8.22 carries it, without its descriptions and with a definition on each line.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

_FILE = Path(__file__).with_name("debugAdapterProtocol.json")


def judge(message: dict[str, Any]) -> None:
    """Raise jsonschema.ValidationError for a message that the protocol does not have, or AssertionError."""
    _validator(_definition(message)).validate(message)


def definitions() -> dict[str, Any]:
    """Return all definitions of the schema."""
    found: dict[str, Any] = _schema()["definitions"]
    return found


def _definition(message: dict[str, Any]) -> str:
    if message["type"] == "response" and not message["success"]:
        return "ErrorResponse"
    name = message["event"] if message["type"] == "event" else message["command"]
    name = f"{name[0].upper()}{name[1:]}{message['type'].capitalize()}"
    assert name in definitions(), f"the protocol has no {name}"
    return name


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_FILE.read_text())
    return found


@cache
def _validator(name: str) -> jsonschema.Draft4Validator:
    return jsonschema.Draft4Validator({**_schema(), "$ref": f"#/definitions/{name}", "type": "object"})
