"""How bytes become messages and back: text frames are JSON control messages, binary frames carry terminal bytes.

Decoding is strict: unknown types and bad values are refused by name, unknown fields are ignored so that a newer
minor may add some. The ``decode`` functions raise nothing but :class:`PeerError` and :class:`UnknownType`, for any
input.
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
    """A message of a type that this release doesn't know; a newer minor may send it, so the connection can go on."""


_BY_NAME: Mapping[str, type[Message]] = {name_of(message): message for message in MESSAGES}


# ---------------------------------------------------------------------------------------------------- control messages


def encode(message: Message) -> str:
    """Return the text frame for a message."""
    return encode_record(message)


def decode(text: str | bytes, sender: Sender) -> Message:
    """Return the message in a text frame that ``sender`` sent.

    Raise UnknownType for a type this release doesn't know, and PeerError for anything else that is wrong: not JSON,
    too long, a missing field, a value of another type or out of bounds, a message that the sender may not send.
    """
    if len(text) > limits.MAX_CONTROL_BYTES:
        raise PeerError(f"a control message of {len(text)} bytes, above {limits.MAX_CONTROL_BYTES}")
    try:
        return typing.cast(Message, _decoder(sender).decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _refused(text, sender, error) from None


@cache
def _decoder(sender: Sender) -> msgspec.json.Decoder[typing.Any]:
    kinds = tuple(message for message in MESSAGES if sender in message.sender)
    return msgspec.json.Decoder(typing.Union[kinds])  # noqa: UP007 - the members are known at run time only


def _refused(text: str | bytes, sender: Sender, error: Exception) -> PeerError:
    """Return what says why a text frame is refused."""
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
        return PeerError(f"message {name!r} does not come from {sender.value}s")
    return PeerError(f"{name}{printable(refusal(error))}")


# ------------------------------------------------------------------------------------------------------- binary frames

_OUTPUT = struct.Struct(">BIQ")
_INPUT = struct.Struct(">BIIIQ")


@dataclass(frozen=True, slots=True)
class Output:
    """Terminal bytes of a session, from agent to client; ``offset`` counts from the session's start."""

    session: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Input:
    """Keys for a session, from client to agent, tagged so that no key is applied twice or to another stop.

    ``offset`` counts this generation's bytes.
    """

    session: int
    stop: int
    generation: int
    offset: int
    data: bytes


def encode_data(frame: Output | Input) -> bytes:
    """Return the binary frame for terminal bytes."""
    if isinstance(frame, Output):
        return _OUTPUT.pack(_OUTPUT_KIND, frame.session, frame.offset) + frame.data
    return _INPUT.pack(_INPUT_KIND, frame.session, frame.stop, frame.generation, frame.offset) + frame.data


def join_outputs(first: bytes, following: bytes) -> bytes | None:
    """Return two binary frames of output as one; None if they don't follow each other, or are too long for one."""
    if len(first) + len(following) - 2 * _OUTPUT.size > limits.MAX_DATA_BYTES:
        return None
    if min(len(first), len(following)) < _OUTPUT.size:
        return None
    kind, session, offset = _OUTPUT.unpack_from(first)
    if _OUTPUT.unpack_from(following) != (kind, session, offset + len(first) - _OUTPUT.size):
        return None
    return first + following[_OUTPUT.size :]


def decode_data(frame: bytes, sender: Sender) -> Output | Input:
    """Return the terminal bytes in a binary frame; raise PeerError if the sender may not send this frame."""
    kind, header = (_OUTPUT_KIND, _OUTPUT) if sender is Sender.AGENT else (_INPUT_KIND, _INPUT)
    if len(frame) < header.size or frame[0] != kind:
        raise PeerError(f"a binary frame that no {sender.value} sends")
    if len(frame) - header.size > limits.MAX_DATA_BYTES:
        raise PeerError(f"a binary frame of {len(frame)} bytes, above {limits.MAX_DATA_BYTES}")
    data = bytes(frame[header.size :])
    if sender is Sender.AGENT:
        _, session, offset = header.unpack_from(frame)
        return Output(session, offset, data)
    _, session, stop, generation, offset = header.unpack_from(frame)
    return Input(session, stop, generation, offset, data)


class SessionLog:
    """The last MAX_LOG bytes of a line debugger's output, by their offsets in it. Not safe for several threads."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.end = 0

    @property
    def start(self) -> int:
        """Return the offset of the first byte that is kept."""
        return self.end - len(self._kept)

    def append(self, data: bytes) -> None:
        """Add bytes at the end, and drop the oldest."""
        self._kept += data
        self.end += len(data)
        del self._kept[: max(0, len(self._kept) - limits.MAX_LOG)]

    def since(self, offset: int) -> tuple[int, bytes]:
        """Return the offset at which the bytes kept from ``offset`` on begin, and these bytes."""
        begin = min(max(offset, self.start), self.end)
        return begin, bytes(self._kept[begin - self.start :])


MAX_LINE = 400
"""Characters of one message; a registration, which has the most fields, needs 300."""

MAX_SHOWN = 80
"""Characters of one text that is shown."""


class LogForm:
    """A message that becomes a line only if a log writes it, as making the line costs time."""

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __str__(self) -> str:
        return log_form(self._message)


def log_form(message: Message) -> str:
    """Return a message as a line of a log, with control characters escaped."""
    return printable(f"{name_of(type(message))} {_fields(message)}".rstrip(), MAX_LINE)


def _fields(record: Record) -> str:
    """Return the fields that differ from their defaults."""
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
