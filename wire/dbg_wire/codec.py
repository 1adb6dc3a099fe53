"""How bytes become messages and back: text frames are JSON control messages, binary frames carry terminal bytes.

Decoding is strict: unknown types and bad values are refused by name, unknown fields are ignored so that a newer
minor may add some. Nothing but :class:`PeerError` and :class:`UnknownType` comes out of the ``decode`` functions,
whatever goes in.
"""

from __future__ import annotations

import enum
import json
import math
import struct
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache

from . import limits
from .errors import PeerError
from .messages import MESSAGES, Message, Sender

MAX_NUMBER = 2**53
"""Largest integer that every JSON implementation carries exactly."""


class UnknownType(PeerError):
    """Say that the peer sent a message this release doesn't know; a newer minor may, so the connection can go on."""


def type_name(message: type[Message]) -> str:
    """Return a message's name on the wire, e.g. ``rank-gone`` for ``RankGone``."""
    name = message.__name__
    return "".join(("-" if i and c.isupper() else "") + c.lower() for i, c in enumerate(name))


_BY_NAME: Mapping[str, type[Message]] = {type_name(message): message for message in MESSAGES}


# ---------------------------------------------------------------------------------------------------- control messages


def encode(message: Message) -> str:
    """Return the text frame for a message."""
    document: dict[str, object] = {"type": type_name(type(message))}
    document.update(_plain_fields(message))
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def decode(text: str | bytes, sender: Sender) -> Message:
    """Return the message in a text frame that ``sender`` sent.

    Raises UnknownType for a type this release doesn't know, and PeerError for anything else that is wrong: not JSON,
    too long, a missing field, a value of another type or out of bounds, a message which that sender may not send.
    """
    if len(text) > limits.MAX_CONTROL_BYTES:
        raise PeerError(f"a control message of {len(text)} bytes, above {limits.MAX_CONTROL_BYTES}")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"a text frame that is not JSON ({type(error).__name__})") from None
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise PeerError("a text frame that is not an object with a type")
    message_type = _BY_NAME.get(document["type"])
    if message_type is None:
        raise UnknownType(f"unknown message type {document['type'][:80]!r}")
    if sender not in message_type.sender:
        raise PeerError(f"message {document['type']!r} does not come from {sender.value}s")
    message = _build(message_type, document, document["type"])
    return typing.cast(Message, message)


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _plain_fields(value: object) -> dict[str, object]:
    return {f.name: _plain(getattr(value, f.name)) for f in fields(typing.cast("type", value))}


@cache
def _hints(cls: type) -> dict[str, object]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


def _build(cls: type, document: Mapping[str, object], path: str) -> object:
    values: dict[str, object] = {}
    hints = _hints(cls)
    for f in fields(cls):
        if f.name in document:
            values[f.name] = _convert(document[f.name], hints[f.name], f"{path}.{f.name}")
        elif f.default is MISSING and f.default_factory is MISSING:
            raise PeerError(f"{path} lacks the field {f.name!r}")
    return cls(**values)


def _convert(value: object, hint: object, path: str) -> object:
    """Return a JSON value as what a field's annotation asks for, or raise PeerError naming the field."""
    if isinstance(hint, types.UnionType):
        return None if value is None else _convert(value, typing.get_args(hint)[0], path)
    if typing.get_origin(hint) is tuple:
        return _convert_list(value, typing.get_args(hint)[0], path)
    if isinstance(hint, type):
        if is_dataclass(hint) and isinstance(value, dict):
            return _build(hint, value, path)
        if issubclass(hint, enum.Enum):
            return _convert_enum(value, hint, path)
        converted = _convert_scalar(value, hint)
        if converted is not None:
            return converted
    raise PeerError(f"{path} is {_shown(value)}")


def _convert_list(value: object, hint: object, path: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise PeerError(f"{path} is {_shown(value)}, not a list")
    if len(value) > limits.MAX_ITEMS:
        raise PeerError(f"{path} has {len(value)} elements, above {limits.MAX_ITEMS}")
    if hint is int and all(type(item) is int and abs(item) <= MAX_NUMBER for item in value):
        # Each rank that is held names all that it waits for.
        return tuple(value)
    return tuple(_convert(item, hint, f"{path}[{i}]") for i, item in enumerate(value))


def _convert_enum(value: object, hint: type[enum.Enum], path: str) -> enum.Enum:
    try:
        return hint(value)
    except ValueError:
        raise PeerError(f"{path} is {_shown(value)}, not one of {', '.join(str(m.value) for m in hint)}") from None


def _convert_scalar(value: object, hint: type) -> object:
    # bool is an int in Python; a flag where a number belongs is a mistake all the same.
    if hint is bool:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if hint is int:
        return value if isinstance(value, int) and abs(value) <= MAX_NUMBER else None
    if hint is float and isinstance(value, (int, float)):
        return float(value) if abs(value) <= MAX_NUMBER and math.isfinite(value) else None
    if hint is str and isinstance(value, str) and len(value) <= limits.MAX_TEXT:
        # A lone surrogate can't be encoded again, so it would break whoever passes the message on.
        return value if not any("\ud800" <= c <= "\udfff" for c in value) else None
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}… ({type(value).__name__})"


# ------------------------------------------------------------------------------------------------------- binary frames

_OUTPUT = struct.Struct(">BIQ")
_INPUT = struct.Struct(">BIIIQ")
_OUTPUT_KIND = 1
_INPUT_KIND = 2


@dataclass(frozen=True, slots=True)
class Output:
    """Carry terminal bytes of a session, ``offset`` counting from the session's begin; agent to client."""

    session: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Input:
    """Carry keys for a session, tagged so that none is applied twice or to what it was not typed for.

    ``offset`` counts this generation's bytes; client to agent.
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
    """Return the terminal bytes in a binary frame; raise PeerError if that sender can't have sent it."""
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
