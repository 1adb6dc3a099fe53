"""Encoding and decoding of frames: text frames are JSON control messages, binary frames carry terminal bytes.

Decoding is strict: an unknown type or an invalid value is an error that names it. Unknown fields are ignored, so that
a newer minor version can add fields. For any input the ``decode`` functions raise only :class:`PeerError` or
:class:`UnknownType`.
"""

from __future__ import annotations

import enum
import struct
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from dbg_wire import limits
from dbg_wire.errors import PeerError, printable
from dbg_wire.messages import MESSAGES, Message, Sender
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import Record, bound_of, document_of, encode_record, hints_of, name_of, refusal

_OUTPUT_KIND = 1

_INPUT_KIND = 2


class UnknownType(PeerError):
    """Raised for a message type that this release doesn't know. The connection stays open: the peer may be newer."""


_BY_NAME: Mapping[str, type[Message]] = {name_of(message): message for message in MESSAGES}


# ---------------------------------------------------------------------------------------------------- control messages


def encode(message: Message) -> str:
    """Encode a message as a text frame."""
    return encode_record(message)


def decode(text: str | bytes, sender: Sender) -> Message:
    """Decode a text frame that ``sender`` sent.

    Raise UnknownType for a type that this release doesn't know, and PeerError for any other invalid frame: too long,
    not JSON, a missing field or an invalid value. Raise PeerError also for a message that the sender may not send.
    """
    if len(text) > limits.MAX_CONTROL_BYTES:
        raise PeerError(f"a control message of {len(text)} bytes, more than {limits.MAX_CONTROL_BYTES}")
    try:
        return typing.cast(Message, _decoder(sender).decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _refused(text, sender, error) from None


@cache
def _decoder(sender: Sender) -> msgspec.json.Decoder[typing.Any]:
    kinds = tuple(message for message in MESSAGES if sender in message.sender)
    return msgspec.json.Decoder(typing.Union[kinds])  # noqa: UP007 - the members are known at run time only


def _refused(text: str | bytes, sender: Sender, error: Exception) -> PeerError:
    """Return the error that explains why a text frame is invalid."""
    document = document_of(text)
    if document is None:
        return PeerError("a text frame that is not JSON")
    name = document.get("type") if isinstance(document, dict) else None
    if not isinstance(name, str):
        return PeerError("a text frame that is not an object with a type")
    kind = _BY_NAME.get(name)
    if kind is None:
        return UnknownType(f"unknown message type {name[:80]!r}")
    if sender not in kind.sender:
        return PeerError(f"message {name!r} may not be sent by {sender.value}s")
    return PeerError(f"{name}{printable(refusal(error))}")


# ------------------------------------------------------------------------------------------------------- binary frames

_OUTPUT = struct.Struct(">BIQ")
_INPUT = struct.Struct(">BIIIQ")


@dataclass(frozen=True, slots=True)
class Output:
    """Terminal output of a session, from agent to client; ``offset`` counts from the start of the session."""

    session: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Input:
    """Keys for a session, from client to agent, tagged so that no key is applied twice or to another stop.

    ``offset`` counts the bytes of this generation.
    """

    session: int
    stop: int
    generation: int
    offset: int
    data: bytes


def encode_data(frame: Output | Input) -> bytes:
    """Encode terminal bytes as a binary frame."""
    if isinstance(frame, Output):
        return _OUTPUT.pack(_OUTPUT_KIND, frame.session, frame.offset) + frame.data
    return _INPUT.pack(_INPUT_KIND, frame.session, frame.stop, frame.generation, frame.offset) + frame.data


def join_outputs(first: bytes, following: bytes) -> bytes | None:
    """Join two consecutive frames of output, or return None if they are not consecutive or too long for one frame."""
    if len(first) + len(following) - 2 * _OUTPUT.size > limits.MAX_DATA_BYTES:
        return None
    if min(len(first), len(following)) < _OUTPUT.size:
        return None
    kind, session, offset = _OUTPUT.unpack_from(first)
    if _OUTPUT.unpack_from(following) != (kind, session, offset + len(first) - _OUTPUT.size):
        return None
    return first + following[_OUTPUT.size :]


def decode_data(frame: bytes, sender: Sender) -> Output | Input:
    """Decode a binary frame. Raise PeerError if the sender may not send this frame."""
    kind, header = (_OUTPUT_KIND, _OUTPUT) if sender is Sender.AGENT else (_INPUT_KIND, _INPUT)
    if len(frame) < header.size or frame[0] != kind:
        raise PeerError(f"a binary frame that {sender.value}s may not send")
    if len(frame) - header.size > limits.MAX_DATA_BYTES:
        raise PeerError(f"a binary frame of {len(frame)} bytes, more than {limits.MAX_DATA_BYTES}")
    data = bytes(frame[header.size :])
    if sender is Sender.AGENT:
        _, session, offset = header.unpack_from(frame)
        return Output(session, offset, data)
    _, session, stop, generation, offset = header.unpack_from(frame)
    return Input(session, stop, generation, offset, data)


class SessionLog:
    """Log of the last MAX_LOG bytes of a line debugger's output, addressed by offset. Not thread-safe."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.end = 0

    @property
    def start(self) -> int:
        """Offset of the first byte in the log."""
        return self.end - len(self._kept)

    def append(self, data: bytes) -> None:
        """Append bytes, and drop the oldest if the log is full."""
        self._kept += data
        self.end += len(data)
        del self._kept[: max(0, len(self._kept) - limits.MAX_LOG)]

    def since(self, offset: int) -> tuple[int, bytes]:
        """Return the log from ``offset`` on: the actual start offset and the bytes."""
        start = min(max(offset, self.start), self.end)
        return start, bytes(self._kept[start - self.start :])


MAX_LINE = 400
"""Maximum number of characters of one logged message. A registration has the most fields; it needs 300 characters."""

MAX_SHOWN = 80
"""Maximum number of characters of one text in a logged message."""


class LogForm:
    """Lazy log line of a message. Formatting takes time, so a line is formatted only when the log writes it."""

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __str__(self) -> str:
        return log_form(self._message)


def log_form(message: Message) -> str:
    """Format a message as a log line, with control characters escaped."""
    return printable(f"{name_of(type(message))} {_fields(message)}".rstrip(), MAX_LINE)


def _fields(record: Record) -> str:
    """Format the fields that differ from their defaults."""
    kind = type(record)
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    default_of = dict(zip(reversed(names), reversed(defaults), strict=False))
    values = ((name, getattr(record, name)) for name in names)
    shown = (
        f"{name}={_shown(hints_of(kind)[name], value)}"
        for name, value in values
        if name not in default_of or value != default_of[name]
    )
    return " ".join(shown)


def _shown(hint: Any, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Place):
        return f"{_cut(value.file)}:{value.line}"
    if isinstance(value, Record):
        return f"({_fields(value)})"
    if isinstance(value, tuple):
        return f"<{len(value)} elements>"
    if isinstance(value, msgspec.Raw):
        return f"<{len(value)} bytes>"
    if isinstance(value, enum.Enum):
        return _cut(str(value.value))
    if isinstance(value, str):
        bound = bound_of(hint)
        is_shown = bound is not None and bound.extra is not None and bound.extra["is_shown"]
        return _cut(value) if is_shown else f"<{len(value)} characters>"
    return _cut(str(value))


def _cut(text: str) -> str:
    return printable(text, MAX_SHOWN)
