"""torch's names of collectives and types in the words of those who call them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

_NAMES = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "all_reduce_barrier": "barrier",
    "all_to_allv": "all_to_all_single",
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "alltoall_v": "all_to_all_single",
}
"""Names in recorders that are not those of the functions that people call."""

_TYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "int": ("int32", 4),
    "long": ("int64", 8),
    "short": ("int16", 2),
    "char": ("int8", 1),
    "byte": ("uint8", 1),
    "bool": ("bool", 1),
    "complexfloat": ("complex64", 8),
    "complexdouble": ("complex128", 16),
}
"""torch's scalar types in C++, as Python calls them, with the bytes of an element."""

_SIZES = dict(_TYPES.values())

MAX_SHAPES = 8
"""Shapes that are written out: a call for a list of a hundred tensors is told by its first ones."""

_PEER = re.compile(r"(send|recv) [0-9]+(?:->|<-)([0-9]{1,9})", re.ASCII)


def name_of(recorded: str) -> tuple[str, bool]:
    """Return the name of a recorded collective, without partner, and whether it receives."""
    name = recorded.partition(" ")[0]
    return _NAMES.get(name, name), name == "recv"


def peer_of(recorded: str) -> int | None:
    """Return the partner in a name such as ``send 0->1``, as a rank of the group; None without one."""
    found = _PEER.fullmatch(recorded)
    return int(found[2]) if found is not None else None


def shapes_text(shapes: Sequence[Sequence[int]]) -> str:
    """Return shapes as ``[2, 3], [4]``."""
    told = ", ".join(str(list(shape)) for shape in shapes[:MAX_SHAPES])
    return told if len(shapes) <= MAX_SHAPES else f"{told}, and {len(shapes) - MAX_SHAPES} more"


def types_text(types: Sequence[str]) -> str:
    """Return the different types, in the order of their first use, as Python calls them."""
    return ", ".join(dict.fromkeys(_python_type(name) for name in types[:1000]))


def bytes_of(shapes: Sequence[Sequence[int]], types: Sequence[str]) -> int | None:
    """Return the bytes of all inputs; None without inputs, or if the size of a type is not known."""
    if not shapes or len(shapes) != len(types):
        return None
    sizes = [_SIZES.get(_python_type(name)) or _small(name) for name in types]
    known = [size for size in sizes if size is not None]
    if len(known) != len(sizes):
        return None
    return sum(prod(shape) * size for shape, size in zip(shapes, known, strict=True))


def _python_type(name: str) -> str:
    return _TYPES[name.lower()][0] if name.lower() in _TYPES else name.lower()


def _small(name: str) -> int | None:
    return 1 if name.lower().startswith("float8") else None
