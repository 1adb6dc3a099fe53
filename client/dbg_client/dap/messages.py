"""The shapes of messages of the Debug Adapter Protocol: requests that come in, responses and events that go out. Pure.

What goes out has no number: :func:`numbered` gives it one as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from dbg_wire.errors import printable

Message = dict[str, Any]

Send = Callable[[Message], None]
"""Takes a response or an event to write; never blocks, and drops it once the client is gone."""

ERROR_ID = 1
"""Number of an error response: the protocol wants one, and clients show its text alone."""

MAX_NUMBER = 2**53
"""The largest whole number that every client's JSON can hold."""


class BadMessage(Exception):
    """Say why a message is no request; told to the client, and never shown as an error of ours."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the client; ``arguments`` are empty if it gave none."""

    seq: int
    command: str
    arguments: Message


def read_request(document: Message) -> Request | None:
    """Return the request of a message, None for a response of the client, which asks for nothing. Raises BadMessage."""
    kind, seq, command = document.get("type"), document.get("seq"), document.get("command")
    if kind == "response":
        return None
    if kind != "request" or not isinstance(command, str):
        raise BadMessage(f"a message of type {_shown(kind)} with the command {_shown(command)} is no request")
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= MAX_NUMBER:
        raise BadMessage(f"the request {_shown(command)} has the number {_shown(seq)}")
    arguments = document.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise BadMessage(f"the arguments of {_shown(command)} are no object")
    return Request(seq, command, arguments)


def response(request: Request, body: Message | None = None) -> Message:
    """Return the answer to a request that was carried out."""
    # Clients exist that take no message without a body, although the protocol has it optional.
    return {
        "type": "response",
        "request_seq": request.seq,
        "success": True,
        "command": request.command,
        "body": body or {},
    }


def refusal(request: Request, sentence: str, *, show_user: bool = False) -> Message:
    """Return the answer to a request that was not carried out; with ``show_user`` the IDE opens a window with it."""
    error = {"id": ERROR_ID, "format": sentence, "showUser": show_user}
    return {
        "type": "response",
        "request_seq": request.seq,
        "success": False,
        "command": request.command,
        "message": sentence,
        "body": {"error": error},
    }


def event(name: str, body: Message | None = None) -> Message:
    """Return an event."""
    return {"type": "event", "event": name, "body": body or {}}


def output(text: str, category: str = "console") -> Message:
    """Return the event that prints lines in the debug console; ``important`` as category opens a window with them."""
    return event("output", {"category": category, "output": text if text.endswith("\n") else f"{text}\n"})


def numbered(write: Callable[[Message], None]) -> Send:
    """Return what numbers messages from 1 on and hands them to ``write``."""
    numbers = count(1)
    return lambda message: write({"seq": next(numbers), **message})


def _shown(value: object) -> str:
    return printable(repr(value), 60)
