"""The base of the Debug Adapter Protocol: bytes to JSON objects and back. Pure.

A message is a header ``Content-Length: N``, an empty line, and N bytes of JSON in UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dbg_wire.errors import BadInput, printable

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
            raise LostFrames(f"a header {_shown(first)}")


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
            raise LostFrames(f"a header with {_shown(line)}")
        if field == b"content-length":
            if not digits.isdigit() or len(digits) > 12 or int(digits) > MAX_BODY:
                raise LostFrames(f"a message of {_shown(digits)} bytes, where {MAX_BODY} are the most")
            found = int(digits)
    if found is None:
        raise LostFrames(f"a header without a Content-Length: {_shown(header)}")
    return found


def _document(body: bytes) -> Frame:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return Garbled("it is no JSON")
    return document if isinstance(document, dict) else Garbled("it is no JSON object")


def _shown(data: bytes) -> str:
    return repr(printable(data[:60].decode("utf-8", "replace")))
