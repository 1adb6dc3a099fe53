"""The place of a rank in the job's mesh of parallel groups, by which users name groups of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dbg_wire.records.ranks import Coordinate
from dbg_wire.records.record import fitted

MAX_AXES = 8
"""Axes of a mesh; the largest trainings use five or six."""

MAX_AXIS_NAME = 32
"""Characters of an axis's name."""

Mesh = tuple[tuple[str, int], ...]


def as_mesh(value: object) -> Mesh:
    """Return a mesh given as a mapping or as ``pp=2,dp=4``; raise ValueError or TypeError for anything else.

    The order counts: ranks run along the last axis first, as in ``torch.distributed.init_device_mesh``.
    """
    if isinstance(value, str):
        pieces = [piece.partition("=") for piece in value.split(",")]
        if len({name.strip() for name, _, _ in pieces}) < len(pieces):
            raise ValueError("an axis is named twice")
        value = {name.strip(): int(size) for name, _, size in pieces}
    if not isinstance(value, Mapping):
        raise TypeError
    mesh = tuple((str(name), int(size)) for name, size in value.items())
    for name, size in mesh:
        if not (name.isidentifier() and name.isascii() and len(name) <= MAX_AXIS_NAME and size >= 1):
            raise ValueError
    if not 1 <= len(mesh) <= MAX_AXES:
        raise ValueError
    return mesh


def coordinates(mesh: Mesh, rank: int) -> tuple[Coordinate, ...]:
    """Return where a rank is on each axis; nothing if the mesh has no such rank."""
    if not mesh or not 0 <= rank < math.prod(size for _, size in mesh):
        return ()
    found = []
    for name, size in reversed(mesh):
        rank, index = divmod(rank, size)
        found.append(fitted(Coordinate, axis=name, index=index))
    return tuple(reversed(found))
