"""Messages of the Debug Adapter Protocol: framing, requests, responses, events, and what both sides can. Pure."""

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
"""Takes a response or an event to write; never blocks, and drops it once the client is gone."""

ERROR_ID = 1
"""Number of an error response: the protocol wants one, and clients show its text alone."""

MAX_NUMBER = 2**53
"""The largest whole number that every client's JSON can hold."""

MAX_NAME = 40
"""Characters of a client's name."""

USUAL_TARGET = "all"
"""The ranks of a window if neither the command line nor the request to attach names some."""

UNNAMED = "IDE"
"""The name of a client that tells none."""

SHORT_NAMES = {"Visual Studio Code": "VS Code", "Visual Studio Code - Insiders": "VS Code Insiders"}
"""What people call a client that tells a longer name: it stands in the lines of many terminals."""

NVIM = "neovim"
"""The name by which nvim-dap greets."""

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
"""Bytes of one message of an IDE; the breakpoints of a file with thousands of lines take some hundred kilobytes."""

MAX_WRONG = 200
"""Characters of what is said of a wrong message."""

_FIELDS = (b"content-length", b"content-type")


class BadMessage(Exception):
    """Say why a message is no request; told to the client, and never shown as an error of ours."""


class Request(msgspec.Struct, frozen=True, tag_field="type", tag="request"):
    """A request of the client; ``arguments`` are an object, or None if it gave none."""

    seq: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
    command: str
    arguments: Any = None


class Response(msgspec.Struct, frozen=True, tag_field="type", tag="response"):
    """An answer of the client, which asks for nothing."""


_decoder = msgspec.json.Decoder(Request | Response)


def read_request(body: bytes) -> Request | None:
    """Return the request of a message, None for a response of the client. Raises BadMessage."""
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadMessage(printable(f"message{why_refused(error)}", MAX_WRONG)) from None
    return found if isinstance(found, Request) else None


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
    return {**response(request, {"error": error}), "success": False, "message": sentence}


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


@dataclass(frozen=True, slots=True)
class Client:
    """What the IDE has said of itself.

    ``goes_on_by_itself`` tells that it is nvim-dap, whose ``auto_continue_if_many_stopped`` is on unless its user says
    otherwise.
    """

    name: str = UNNAMED
    goes_on_by_itself: bool = False

    @classmethod
    def read(cls, arguments: Message) -> Client:
        """Return what the arguments of ``initialize`` say; what is missing is as the protocol has it."""
        said = arguments.get("clientName") or arguments.get("clientID")
        name = printable(said, MAX_NAME).strip() if isinstance(said, str) else ""
        # Until 2023 nvim-dap wrote the field in another way.
        is_nvim = NVIM in (arguments.get("clientID"), arguments.get("clientId"))
        return cls(name=SHORT_NAMES.get(name, name) or UNNAMED, goes_on_by_itself=is_nvim)


class LostFrames(BadInput):
    """The bytes can't be followed any more: where the next message begins isn't known. Nothing is read after this."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"what came in is not the Debug Adapter Protocol: {problem}", "have an IDE start it: see `dap --vscode`"
        )


async def read_body(reader: asyncio.StreamReader) -> bytes | None:
    """Return the bytes of the next message, None at the end. Raises LostFrames as soon as a line is no header's."""
    size: int | None = None
    known: set[bytes] = set()
    try:
        while (line := await reader.readline()) != b"\r\n" or size is None:
            if not line.endswith(b"\n"):
                return None
            name, colon, value = line.partition(b":")
            field = name.strip().lower()
            # A web page can have a browser send HTTP to a port of this host, and such a header has other fields.
            if not colon or not line.endswith(b"\r\n") or field not in _FIELDS or field in known:
                raise LostFrames(f"a header with {_shown_line(line)}")
            known.add(field)
            if field == b"content-length":
                size = _size(value.strip())
        return await reader.readexactly(size)
    except ValueError:
        raise LostFrames("a header without an end") from None
    except (OSError, asyncio.IncompleteReadError):
        return None


def _size(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 12 or int(digits) > MAX_BODY:
        raise LostFrames(f"a message of {_shown_line(digits)} bytes, where {MAX_BODY} are the most")
    return int(digits)


def _shown_line(data: bytes) -> str:
    return repr(printable(data[:60].decode("utf-8", "replace")))


def frame(document: dict[str, Any]) -> bytes:
    """Return the bytes of a message."""
    # A lone surrogate, which a rank's text may hold, is escaped.
    body = json.dumps(document, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
