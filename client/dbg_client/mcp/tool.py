"""What a tool is: a name, what it is for, what it takes, and what it does with the ranks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dbg_client.api.broker import AsyncBroker
from dbg_wire.errors import BadInput, printable

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. ``changes`` says that a program may move or end by it: a watcher's token has no such tool."""

    name: str
    help: str
    takes: Mapping[str, Mapping[str, Any]]
    needs: tuple[str, ...] = ()
    changes: bool = False
    do: Callable[[AsyncBroker, Given], Awaitable[str]]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of what it takes."""
        return {
            "type": "object",
            "properties": dict(self.takes),
            "required": list(self.needs),
            "additionalProperties": False,
        }

    def document(self) -> dict[str, Any]:
        """Return the tool as ``tools/list`` tells it."""
        hints = {"readOnlyHint": not self.changes, "openWorldHint": False}
        return {"name": self.name, "description": self.help, "inputSchema": self.schema, "annotations": hints}

    def check(self, given: Given) -> None:
        """Raise BadInput for arguments that the tool does not take."""
        for name in self.needs:
            if name not in given:
                raise BadInput(f"{self.name} needs {name}", f"it takes {', '.join(self.takes)}")
        for name, value in given.items():
            if name not in self.takes:
                known = ", ".join(self.takes) or "nothing"
                raise BadInput(f"{self.name} takes no {printable(name)!r}", f"it takes {known}")
            if not _fits(value, str(self.takes[name]["type"])):
                raise BadInput(
                    f"{name} of {self.name} is {printable(repr(value), 60)}", f"give a {self.takes[name]['type']}"
                )


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


def _fits(value: object, kind: str) -> bool:
    if kind == "array":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def text(help: str) -> dict[str, Any]:  # noqa: A002 - what JSON schema calls description
    """Return the schema of a text."""
    return {"type": "string", "description": help}


def flag(help: str) -> dict[str, Any]:  # noqa: A002
    """Return the schema of a true or false."""
    return {"type": "boolean", "description": help}


def whole(help: str) -> dict[str, Any]:  # noqa: A002
    """Return the schema of a whole number."""
    return {"type": "integer", "description": help}
