"""The description of a numpy array or scalar, and the digest of its content.

Numpy is never imported here: an array exists only if the program has imported numpy. Elements are compared by their
bytes, like the elements of tensors, unless the bytes contain pointers or padding.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbg_agent.values.record import DigestBudget, ValueRecord

BLOCK_BYTES = 8 << 20
"""Number of bytes that are hashed between two checks of the clock: about 6 ms of hashing."""

SHOWN_ELEMENTS = 8
"""Maximum number of elements of a tensor or an array that is shown with its values."""

ELEMENTS_AT_ONCE = 1024
"""Number of elements that are converted to Python objects at once, if they must be compared one by one."""


def blocks(array: Any, most: int) -> Iterator[Any]:
    """Split an array or a tensor into views of at most ``most`` elements, in the order of its elements.

    Equal arrays yield the same elements in the same order, even if the order of the elements in memory differs.
    """
    shape = tuple(array.shape)
    if math.prod(shape) <= most:
        yield array
        return
    row = math.prod(shape[1:])
    if row > most:
        for index in range(shape[0]):
            yield from blocks(array[index], most)
        return
    step = most // row
    for start in range(0, shape[0], step):
        yield array[start : start + step]


def shape_text(shape: Any) -> str:
    """Return a shape as text: ``3x4``, or ``scalar`` if it has no axis."""
    return "x".join(map(str, shape)) or "scalar"


BYTES_ARE_ALL = frozenset("biufcmMSUV")
"""Kinds of elements whose bytes are their value; elements of other kinds point to objects."""

PADDED = frozenset("gG")
"""Type codes of extended precision: 6 of an element's 16 bytes are padding."""


SELF_CONTAINED = frozenset({"ndarray", "memmap", "matrix", "recarray"})
"""Numpy's own classes that contain only their elements; a masked array contains more."""


def is_array(kind: type) -> bool:
    """Return True if a class is one of numpy's arrays or scalars."""
    numpy = sys.modules.get("numpy")
    bases = tuple(getattr(numpy, name, ()) for name in ("ndarray", "generic"))
    return all(isinstance(base, type) for base in bases) and issubclass(kind, bases)


def write_array(record: ValueRecord, array: Any) -> None:
    """Add the type and shape of an array to text and fingerprint, then its content if that can be read."""
    numpy: Any = sys.modules["numpy"]
    kind = type(array)
    if issubclass(kind, numpy.generic):
        record.text.write(repr(array))
        _feed_outside(record, array)
        record.attempt(lambda: _feed_content(record, numpy, numpy.asarray(array)))
        return
    name = "array" if kind is numpy.ndarray else kind.__name__
    record.text.write(f"{name} {shape_text(array.shape)} {array.dtype}")
    _feed_outside(record, array)
    if not (kind.__module__.startswith("numpy") and kind.__name__ in SELF_CONTAINED):
        record.effort.stop_digest(f"{kind.__name__} may contain more than its elements")
        return
    base = numpy.asarray(array)
    if base.size <= SHOWN_ELEMENTS and base.dtype.kind in BYTES_ARE_ALL and base.dtype.names is None:
        record.text.write(f": {_literal(base)}")
    if not record.effort.reason:
        record.attempt(lambda: _feed_content(record, numpy, base))


def _feed_outside(record: ValueRecord, array: Any) -> None:
    kind = type(array)
    record.fingerprint.feed_text("array", f"{kind.__qualname__} {array.shape} {array.dtype!r}")


def _feed_content(record: ValueRecord, numpy: Any, array: Any) -> None:
    dtype = array.dtype
    if not record.compares:
        # The array is only shown, so this function does not read its content. The function still counts the bytes that
        # a comparison would read: an array that is too large to be compared gets the same remark as in a comparison.
        # The size of elements that are objects is unknown.
        record.effort.count(0 if dtype.hasobject else array.size * dtype.itemsize)
        return
    if dtype.names is not None:
        # Each field is fed separately, because the padding between fields is not part of the value.
        for name in dtype.names:
            record.fingerprint.feed_text("field", name)
            _feed_content(record, numpy, array[name])
        return
    if dtype.hasobject or dtype.kind not in BYTES_ARE_ALL or dtype.char in PADDED:
        _feed_elements(record, array)
        return
    record.effort.count(array.size * dtype.itemsize)
    for block in _in_one_piece(record.effort, numpy, array):
        if block.nbytes:
            record.fingerprint.feed(block.view(numpy.uint8))


def _feed_elements(record: ValueRecord, array: Any) -> None:
    for block in blocks(array, ELEMENTS_AT_ONCE):
        for element in block.reshape(-1).tolist():
            if array.dtype.char in PADDED:
                record.effort.check()
                record.fingerprint.feed_text("element", repr(element))
            else:
                record.fingerprint_only(element)


def _in_one_piece(effort: DigestBudget, numpy: Any, array: Any) -> Iterator[Any]:
    """Yield an array as flat arrays, block by block."""
    for block in blocks(array, BLOCK_BYTES // max(1, array.itemsize)):
        effort.check()
        yield numpy.ascontiguousarray(block.reshape(-1))


def _literal(array: Any) -> str:
    if array.ndim:
        return f"[{', '.join(map(_literal, array))}]"
    # item() turns a float32 into a Python float with more digits, which mean nothing. str() omits them.
    return str(array) if array.dtype.kind in "biufc" else repr(array.item())
