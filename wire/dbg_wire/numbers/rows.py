"""File format of a rank's recorded numbers: one frame per step, which introduces the names that are new.

A file starts with MAGIC. A frame is its length in four bytes and a MessagePack array. A row takes about 45 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, BinaryIO, NamedTuple

import msgspec

from dbg_wire.errors import DbgError
from dbg_wire.limits import MIB
from dbg_wire.records.numbers import MAX_DIMENSIONS, Suspect
from dbg_wire.records.record import Count, Record, characters, elements, refusal

MAGIC = b"dbg-numbers 1\n"

FILE = "rank-{:05}.numbers"
"""Name of the file of a rank."""

OLD = ".old"
"""Suffix of the older one of the two files of a ring."""

MAX_ROWS = 100_000
"""Maximum number of tensors of a step; the largest models have fewer modules and parameters in a rank."""

MAX_TENSOR_NAME = 1000
"""Maximum number of characters of a name; a longer one is truncated."""

MAX_NAMES = 1_000_000
"""Maximum number of names in a file. More of them are an attack on the reader's memory."""

MAX_FRAME = 64 * MIB
"""Maximum size of a frame, in bytes: MAX_ROWS rows with long names."""

_Rows = elements(MAX_ROWS)


class NotNumbers(DbgError):
    """Raised when a file has no valid recorded numbers."""


class WatchedTensor(Record, array_like=True):
    """Identity of a tensor in a step. ``call`` counts the outputs of a module in this step, from 0."""

    suspect: Suspect
    name: Annotated[str, characters(MAX_TENSOR_NAME)]
    call: Count
    shape: Annotated[tuple[Count, ...], elements(MAX_DIMENSIONS)]
    dtype: Annotated[str, characters(64)]


class Numbers(Record, array_like=True):
    """Measured numbers of a tensor: 2-norm, extremes, count of elements that are not finite, digest of the bytes."""

    norm: float
    low: float
    high: float
    wrong: Count
    digest: int


class StepNumbers(NamedTuple):
    """Numbers of all tensors of one step, in the order of their appearance."""

    step: int
    tensors: Mapping[WatchedTensor, Numbers]


class _Frame(Record, array_like=True):
    step: Count
    names: Annotated[tuple[WatchedTensor, ...], _Rows]
    rows: Annotated[tuple[tuple[Count, Numbers], ...], _Rows]


_decoder = msgspec.msgpack.Decoder(_Frame)


class FrameEncoder:
    """Encoder of the frames of one file."""

    def __init__(self) -> None:
        self._indices: dict[WatchedTensor, int] = {}

    def encode(self, numbers: StepNumbers) -> bytes:
        """Return the frame of a step. The frames of a file have to be written in the order of their encoding."""
        known = len(self._indices)
        rows = tuple(
            (self._indices.setdefault(tensor, len(self._indices)), row) for tensor, row in numbers.tensors.items()
        )
        frame = msgspec.msgpack.encode(_Frame(step=numbers.step, names=tuple(self._indices)[known:], rows=rows))
        return len(frame).to_bytes(4, "big") + frame


def read_steps(file: BinaryIO) -> Iterator[StepNumbers]:
    """Yield the steps of a file, which is untrusted. A frame that was not written completely ends it.

    Raise NotNumbers.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise NotNumbers("is not a file of recorded numbers")
    names: list[WatchedTensor] = []
    while len(head := file.read(4)) == 4:
        size = int.from_bytes(head, "big")
        if size > MAX_FRAME:
            raise NotNumbers(f"has a frame of {size:,} bytes, but at most {MAX_FRAME:,} are allowed")
        data = file.read(size)
        if len(data) < size:
            return
        try:
            frame = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise NotNumbers(f"has an invalid frame{refusal(error)}") from None
        names += frame.names
        if len(names) > MAX_NAMES or any(index >= len(names) for index, _ in frame.rows):
            raise NotNumbers("has a frame with invalid names")
        yield StepNumbers(frame.step, {names[index]: row for index, row in frame.rows})
