"""Debug Adapter Protocol messages: framing, requests, responses, events, and capabilities of both sides. Pure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any

import msgspec

from dbg_wire.errors import BadInput, printable
from dbg_wire.records.record import refusal as why_refused

Message = dict[str, Any]

Send = Callable[[Message], None]
"""Function that queues a response or event; it never blocks, and drops the message after the client has gone."""

ERROR_ID = 1
"""Error number of every error response: the protocol requires one, but clients show only the text."""

MAX_NUMBER = 2**53
"""Largest integer that every client's JSON can represent."""

MAX_NAME = 40
"""Maximum length of a client's name, in characters."""

USUAL_TARGET = "all"
"""Target of a window if neither the command line nor the attach request names one."""

UNNAMED = "IDE"
"""Name of a client that does not send a name."""

SHORT_NAMES = {"Visual Studio Code": "VS Code", "Visual Studio Code - Insiders": "VS Code Insiders"}
"""Short names for clients that send a long name, because the name is part of lines in many terminals."""

NVIM = "neovim"
"""Client ID that nvim-dap sends."""

CAPABILITIES: Message = {
    "supportsConfigurationDoneRequest": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsExceptionInfoRequest": True,
    "supportsSingleThreadExecutionRequests": True,
    "supportsClipboardContext": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportTerminateDebuggee": False,
    "supportSuspendDebuggee": False,
}

MAX_BODY = 4 * 1024 * 1024
"""Maximum size of one message, in bytes; breakpoints for a file of thousands of lines take some hundred kilobytes."""

MAX_WRONG = 200
"""Maximum length of the text about an invalid message, in characters."""

_FIELDS = (b"content-length", b"content-type")


class BadMessage(Exception):
    """Raised when a message is not a valid request; the client receives a notice, and the session continues."""


class Request(msgspec.Struct, frozen=True, tag_field="type", tag="request"):
    """A request of the client; ``arguments`` is an object, or None if the client sent none."""

    seq: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
    command: str
    arguments: Any = None


class Response(msgspec.Struct, frozen=True, tag_field="type", tag="response"):
    """A response of the client; it needs no reply."""


_decoder = msgspec.json.Decoder(Request | Response)


def read_request(body: bytes) -> Request | None:
    """Return the request in a message, or None if the message is a response. Raises BadMessage."""
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadMessage(printable(f"message{why_refused(error)}", MAX_WRONG)) from None
    return found if isinstance(found, Request) else None


def response(request: Request, body: Message | None = None) -> Message:
    """Return the response to a successful request."""
    # Some clients reject a message without a body, although the protocol makes it optional.
    return {
        "type": "response",
        "request_seq": request.seq,
        "success": True,
        "command": request.command,
        "body": body or {},
    }


def refusal(request: Request, sentence: str, *, show_user: bool = False) -> Message:
    """Return the response to a failed request; with ``show_user`` the IDE shows the error in a message box."""
    error = {"id": ERROR_ID, "format": sentence, "showUser": show_user}
    return {**response(request, {"error": error}), "success": False, "message": sentence}


def event(name: str, body: Message | None = None) -> Message:
    """Return an event message."""
    return {"type": "event", "event": name, "body": body or {}}


def output(text: str, category: str = "console") -> Message:
    """Return the event that prints text in the debug console; category ``important`` also opens a message box."""
    return event("output", {"category": category, "output": text if text.endswith("\n") else f"{text}\n"})


def numbered(write: Callable[[Message], None]) -> Send:
    """Return a function that numbers messages from 1 and passes them to ``write``."""
    numbers = count(1)
    return lambda message: write({"seq": next(numbers), **message})


@dataclass(frozen=True, slots=True)
class Client:
    """Properties of the IDE from its ``initialize`` request.

    ``resumes_by_itself`` means that the client resumes a rank that stops while another rank is stopped. nvim-dap does
    this, unless its user has turned ``auto_continue_if_many_stopped`` off.
    """

    name: str = UNNAMED
    resumes_by_itself: bool = False

    @classmethod
    def read(cls, arguments: Message) -> Client:
        """Return the client that ``initialize`` describes; missing fields have the protocol's defaults."""
        client = arguments.get("clientName") or arguments.get("clientID")
        name = printable(client, MAX_NAME).strip() if isinstance(client, str) else ""
        # Before 2023 nvim-dap spelled this field differently.
        is_nvim = NVIM in (arguments.get("clientID"), arguments.get("clientId"))
        return cls(name=SHORT_NAMES.get(name, name) or UNNAMED, resumes_by_itself=is_nvim)


class LostFrames(BadInput):
    """Raised when the start of the next message cannot be found; nothing is read after this."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the input is not the Debug Adapter Protocol: {problem}", "start `dap` from an IDE: see `dap --vscode`"
        )


async def read_body(reader: asyncio.StreamReader) -> bytes | None:
    """Return the bytes of the next message, or None at EOF. Raises LostFrames for an invalid header or size."""
    size: int | None = None
    known: set[bytes] = set()
    try:
        while (line := await reader.readline()) != b"\r\n" or size is None:
            if not line.endswith(b"\n"):
                return None
            name, colon, value = line.partition(b":")
            field = name.strip().lower()
            # Reject HTTP, which has other header fields: a web page can make a browser send it to a port of this host.
            if not colon or not line.endswith(b"\r\n") or field not in _FIELDS or field in known:
                raise LostFrames(f"unexpected header line {_shown_line(line)}")
            known.add(field)
            if field == b"content-length":
                size = _size(value.strip())
        return await reader.readexactly(size)
    except ValueError:
        raise LostFrames("a header line without an end") from None
    except (OSError, asyncio.IncompleteReadError):
        return None


def _size(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 12 or int(digits) > MAX_BODY:
        raise LostFrames(f"a message of {_shown_line(digits)} bytes; the limit is {MAX_BODY} bytes")
    return int(digits)


def _shown_line(data: bytes) -> str:
    return repr(printable(data[:60].decode("utf-8", "replace")))


def frame(document: dict[str, Any]) -> bytes:
    """Return the framed bytes of a message."""
    # A rank's text may contain lone surrogates. ``json.dumps`` escapes them, so ``encode`` accepts the result.
    body = json.dumps(document, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
