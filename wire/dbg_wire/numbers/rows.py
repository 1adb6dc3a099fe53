"""File format of a rank's recorded numbers: one frame per step, which introduces the tensors that are new.

A frame is its length in four bytes and a MessagePack array. A row takes about 50 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

import msgspec

from dbg_wire.errors import DbgError
from dbg_wire.limits import MIB
from dbg_wire.records.numbers import Suspect
from dbg_wire.records.record import Count, FreeText, Record, Word

MAX_FRAME = 64 * MIB
"""Maximum size of a frame, in bytes: 100,000 tensors with long names. The largest models have fewer in a rank."""

MEASURES = ("norm", "minimum", "maximum", "nonfinite", "digest")
"""The measured fields of Numbers."""


INVALID = (msgspec.DecodeError, UnicodeError, RecursionError, IndexError)
"""Errors of an invalid file."""


class NotNumbers(DbgError):
    """Raised when a file has no valid recorded numbers."""


class WatchedTensor(Record, array_like=True):
    """Identity of a tensor in a step. ``call`` counts the outputs of a module in this step, from 1."""

    suspect: Suspect
    name: FreeText
    call: Count
    shape: tuple[Count, ...]


class Numbers(Record, array_like=True):
    """Numbers of a tensor: 2-norm, extremes, count of elements that are not finite, digest of the bytes, and dtype."""

    norm: float
    minimum: float
    maximum: float
    nonfinite: Count
    digest: int
    dtype: Word


class StepNumbers(NamedTuple):
    """Numbers of all tensors of one step, in the order of their appearance."""

    step: int
    tensors: Mapping[WatchedTensor, Numbers]


class _Frame(Record, array_like=True):
    step: Count
    new: tuple[WatchedTensor, ...]
    rows: tuple[tuple[Count, Numbers], ...]


_decoder = msgspec.msgpack.Decoder(_Frame)


def encode_step(numbers: StepNumbers, indices: dict[WatchedTensor, int]) -> bytes:
    """Return the frame of a step. Add its new tensors to ``indices``, which has those of the frames before."""
    known = len(indices)
    rows = tuple((indices.setdefault(tensor, len(indices)), row) for tensor, row in numbers.tensors.items())
    frame = msgspec.msgpack.encode(_Frame(step=numbers.step, new=tuple(indices)[known:], rows=rows))
    return len(frame).to_bytes(4, "big") + frame


def read_steps(file: BinaryIO) -> Iterator[StepNumbers]:
    """Yield the steps of a file, which is untrusted. A frame that was not written completely ends it.

    Raise one of INVALID for other invalid frames.
    """
    tensors: list[WatchedTensor] = []
    while len(head := file.read(4)) == 4:
        size = int.from_bytes(head, "big")
        data = file.read(min(size, MAX_FRAME))
        if len(data) < size <= MAX_FRAME:
            return
        frame = _decoder.decode(data)
        tensors += frame.new
        yield StepNumbers(frame.step, {tensors[index]: row for index, row in frame.rows})
