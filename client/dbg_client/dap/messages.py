"""Messages of the Debug Adapter Protocol: framing, requests, responses, events, and what both sides can. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from dbg_wire.errors import BadInput, printable

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


MAX_NAME = 40
"""Characters of a client's name."""

USUAL_TARGET = "all"
"""The ranks of a window if neither the command line nor the request to attach names some."""

UNNAMED = "IDE"
"""The name of a client that tells none."""

SHORT_NAMES = {"Visual Studio Code": "VS Code", "Visual Studio Code - Insiders": "VS Code Insiders"}
"""What people call a client that tells a longer name: it stands in the lines of many terminals."""

UNCAUGHT = "uncaught"

EXCEPTION_FILTERS: list[Message] = [
    {
        "filter": UNCAUGHT,
        "label": "Uncaught exceptions",
        "description": "A rank of a job that was started with --post-mortem stays where it crashed.",
        "default": True,
    }
]
"""The exceptions at which ranks stop, as capabilities tell them."""

CAPABILITIES: Message = {
    "supportsConfigurationDoneRequest": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsCompletionsRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsSingleThreadExecutionRequests": True,
    "supportsCancelRequest": True,
    "supportsDelayedStackTraceLoading": True,
    "supportsClipboardContext": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "exceptionBreakpointFilters": EXCEPTION_FILTERS,
    "supportTerminateDebuggee": False,
    "supportSuspendDebuggee": False,
    "supportsRestartFrame": False,
    "supportsStepBack": False,
    "supportsGotoTargetsRequest": False,
}


@dataclass(frozen=True, slots=True)
class Client:
    """What the IDE has said of itself. Lines and columns count from ``first_line`` and ``first_column``."""

    name: str = UNNAMED
    first_line: int = 1
    first_column: int = 1
    knows_invalidated: bool = False

    @classmethod
    def read(cls, arguments: Message) -> Client:
        """Return what the arguments of ``initialize`` say; what is missing is as the protocol has it."""
        said = arguments.get("clientName") or arguments.get("clientID")
        name = printable(said, MAX_NAME).strip() if isinstance(said, str) else ""
        return cls(
            name=SHORT_NAMES.get(name, name) or UNNAMED,
            first_line=0 if arguments.get("linesStartAt1") is False else 1,
            first_column=0 if arguments.get("columnsStartAt1") is False else 1,
            knows_invalidated=arguments.get("supportsInvalidatedEvent") is True,
        )


MAX_BODY = 4 * 1024 * 1024
"""Bytes of one message of an IDE; the breakpoints of a file with thousands of lines take some hundred kilobytes."""

MAX_HEADER = 4096
"""Bytes of the header fields of one message; there is one field in use, of some 20 bytes."""

_FIELDS = (b"content-length", b"content-type")

_END_OF_HEADER = b"\r\n\r\n"


class LostFrames(BadInput):
    """The bytes can't be followed any more: where the next message begins isn't known. Nothing is read after this."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"what came in is not the Debug Adapter Protocol: {problem}", "have an IDE start it: see `dap --vscode`"
        )


@dataclass(frozen=True, slots=True)
class Garbled:
    """A message that is no JSON object, and why; the messages after it can be read."""

    problem: str


Frame = dict[str, Any] | Garbled


class FrameReader:
    """Cut the bytes of one client into messages; belongs to one task. Holds MAX_HEADER + MAX_BODY bytes at most."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._body: int | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the messages that these bytes complete. Raises LostFrames after those that came before the fault."""
        self._bytes += data
        while True:
            if self._body is None:
                self._body = self._take_header()
            if self._body is None or len(self._bytes) < self._body:
                return
            body = bytes(self._bytes[: self._body])
            del self._bytes[: self._body]
            self._body = None
            yield _document(body)

    @property
    def is_between_messages(self) -> bool:
        """Tell whether every byte so far belongs to a whole message."""
        return not self._bytes and self._body is None

    def _take_header(self) -> int | None:
        end = self._bytes.find(_END_OF_HEADER)
        if end < 0:
            self._refuse_early()
            return None
        if end > MAX_HEADER:
            raise LostFrames(f"a header of more than {MAX_HEADER} bytes")
        header = bytes(self._bytes[:end])
        del self._bytes[: end + len(_END_OF_HEADER)]
        return _length(header)

    def _refuse_early(self) -> None:
        """Refuse an endless header, and a first line that can be no field, before the client waits for an answer."""
        if len(self._bytes) > MAX_HEADER:
            raise LostFrames(f"a header of more than {MAX_HEADER} bytes")
        first, newline, _ = bytes(self._bytes).partition(b"\n")
        if newline and (b":" not in first or not first.endswith(b"\r")):
            raise LostFrames(f"a header {_shown_line(first)}")


def frame(document: dict[str, Any]) -> bytes:
    """Return the bytes of a message."""
    # A lone surrogate, which a rank's text may hold, is escaped.
    body = json.dumps(document, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _length(header: bytes) -> int:
    found: int | None = None
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        field, digits = name.strip().lower(), value.strip()
        # A web page can have a browser send HTTP to a port of this host, and such a header has other fields.
        if field not in _FIELDS or (field == b"content-length" and found is not None):
            raise LostFrames(f"a header with {_shown_line(line)}")
        if field == b"content-length":
            if not digits.isdigit() or len(digits) > 12 or int(digits) > MAX_BODY:
                raise LostFrames(f"a message of {_shown_line(digits)} bytes, where {MAX_BODY} are the most")
            found = int(digits)
    if found is None:
        raise LostFrames(f"a header without a Content-Length: {_shown_line(header)}")
    return found


def _document(body: bytes) -> Frame:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return Garbled("it is no JSON")
    return document if isinstance(document, dict) else Garbled("it is no JSON object")


def _shown_line(data: bytes) -> str:
    return repr(printable(data[:60].decode("utf-8", "replace")))
