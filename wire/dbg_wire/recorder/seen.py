"""Conversion of recorded collectives and groups into rows of an answer, with torch's public function names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from dbg_wire.rank_set import format_ranks
from dbg_wire.recorder.entries import RecorderEntry
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp

LIBRARY = "torch"

NO_DESCRIPTION = frozenset({"", "undefined", "default_pg"})
"""Descriptions that torch records for a group if the program has not set one."""

_NAMES = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "all_reduce_barrier": "barrier",
    "all_to_allv": "all_to_all_single",
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "alltoall_v": "all_to_all_single",
}
"""Names of calls in recorders that differ from the function's public name, each with the public name."""

_REDUCE_SCATTERS = ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single")

_RECORDED_AS = {
    "all_gather_into_tensor": ("all_gather",),
    "all_gather_single": ("all_gather", "all_gather_into_tensor"),
    "all_to_all_single": ("all_to_all",),
    **dict.fromkeys(_REDUCE_SCATTERS, ("all_reduce", *_REDUCE_SCATTERS)),
}
"""Public functions, with the other names that some backends record for them."""

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
"""C++ names of torch's scalar types, with the Python name and the size of an element in bytes."""

_SIZES = dict(_TYPES.values())

MAX_FRAMES = 200
"""Maximum number of frames of a call; the innermost frames are kept."""

MAX_SHAPES = 8
"""Maximum number of shapes that are listed for one call. For a list of a hundred tensors the first shapes are
enough."""

_PEER = re.compile(r"(send|recv) [0-9]+(?:->|<-)([0-9]{1,9})", re.ASCII)


def name_of(recorded: str) -> tuple[str, bool]:
    """Return the public name of a recorded call, without its peer, and whether it is a receive."""
    name = recorded.partition(" ")[0]
    return _NAMES.get(name, name), name == "recv"


def may_be(function: str, recorded: str, library: str) -> bool:
    """Return True if a backend may record a call of ``function`` under the public name ``recorded``."""
    is_other = recorded in _RECORDED_AS.get(function, ()) and (recorded != "all_reduce" or library == "gloo")
    return function == recorded or is_other


def peer_of(recorded: str) -> int | None:
    """Return the peer in a name such as ``send 0->1``, as a rank of the group, or None."""
    found = _PEER.fullmatch(recorded)
    return int(found[2]) if found is not None else None


def shapes_text(shapes: Sequence[Sequence[int]]) -> str:
    """Format shapes as ``[2, 3], [4]``."""
    sizes = ", ".join(str(list(shape)) for shape in shapes[:MAX_SHAPES])
    return sizes if len(shapes) <= MAX_SHAPES else f"{sizes}, and {len(shapes) - MAX_SHAPES} more"


def types_text(types: Sequence[str]) -> str:
    """Format the different types with their Python names, in the order of first use."""
    return ", ".join(dict.fromkeys(_python_type(name) for name in types[:1000]))


def bytes_of(shapes: Sequence[Sequence[int]], types: Sequence[str]) -> int | None:
    """Return the total size of all inputs in bytes, or None if there are none or the size of a type is unknown."""
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


def key_of(name: str, library: str) -> str:
    """Return the key by which a group is matched between ranks.

    It contains the backend, because each backend of a group counts its collectives separately.
    """
    return f"{name}:{library}"


def group_seen(
    name: str,
    library: str,
    entries: Iterable[RecorderEntry],
    *,
    title: str,
    ranks: Sequence[int],
    counted: int | None = None,
) -> GroupSeen:
    """Build the record of a group of one backend. ``ranks`` are its global ranks, empty if unknown.

    ``counted`` is the number of the last enqueued collective; it is used only if the group has no entries.
    """
    own = [e for e in entries if e.group == name and e.library == library and not e.is_p2p]
    unfinished = [entry for entry in own if entry.is_unfinished]
    completed = max((entry.sequence for entry in own if not entry.is_unfinished), default=None)
    enqueued = max((entry.sequence for entry in own), default=None)
    started = None
    if library == "nccl":
        started = max((e.sequence for e in own if e.state != "scheduled" or e.is_retired), default=None)
    enqueued = counted if enqueued is None else enqueued
    if completed is None and unfinished and enqueued is not None:
        completed = min(entry.sequence for entry in unfinished) - 1
    return clamp(
        GroupSeen,
        library=LIBRARY,
        name=key_of(name, library),
        title=title,
        members=format_ranks(ranks),
        size=len(ranks) or None,
        backend=library,
        enqueued=enqueued,
        started=started,
        completed=completed,
    )


def places_in(entry: RecorderEntry) -> tuple[Place, ...]:
    """Return the recorded stack of a call, outermost first."""
    found = []
    for raw in entry.stack[:MAX_FRAMES]:
        if isinstance(raw, dict) and isinstance(raw.get("filename"), str) and isinstance(raw.get("name"), str):
            line = raw.get("line")
            found.append(
                clamp(Place, file=raw["filename"], line=line if type(line) is int else 0, function=raw["name"])
            )
    return tuple(reversed(found))


def entry_seen(
    ranks: Sequence[int],
    entry: RecorderEntry,
    *,
    now: int | None,
    root: int | None = None,
    place: Place | None = None,
    function: str = "",
) -> CollectiveSeen:
    """Build the record of one collective of a group with these global ranks.

    ``now`` is in nanoseconds, or None if it is unknown. ``function`` is the public function that a thread is in, if
    known; the recorder may use another name for the collective.
    """
    name, is_receive = name_of(entry.name)
    state = CollectiveState.ENQUEUED
    if not entry.is_unfinished:
        state = CollectiveState.COMPLETED
    elif entry.state == "started":
        state = CollectiveState.STARTED
    return clamp(
        CollectiveSeen,
        group=key_of(entry.group, entry.library),
        name=function or name,
        state=state,
        sequence=entry.sequence,
        peer=global_rank(ranks, peer_of(entry.name)),
        is_receive=is_receive,
        root=root,
        place=place,
        shapes=shapes_text(entry.shapes),
        types=types_text(entry.types),
        size=bytes_of(entry.shapes, entry.types),
        # The age is limited, because the recorder only has the time of day, and the clock may have been set back.
        age=max(0.0, (now - entry.created) / 1e9) if entry.created and now is not None else None,
        timeout=entry.timeout / 1000 if entry.timeout > 0 else None,
    )


def global_rank(ranks: Sequence[int], local: int | None) -> int | None:
    """Return the global rank at an index of a group, or None if it is unknown; ``ranks`` is the group."""
    return ranks[local] if local is not None and 0 <= local < len(ranks) else None
