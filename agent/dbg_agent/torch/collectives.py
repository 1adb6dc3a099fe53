"""Collectives of torch in this process, as records of an answer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from types import ModuleType

from dbg_agent.torch.calls import (
    MODULE,
    Call,
    Group,
    calls_on_stacks,
    group_of,
    groups_being_created,
    process_groups,
    shape_of,
)
from dbg_agent.torch.flight_recorder import (
    NATIVE_MODULE,
    CallPlaces,
    LastStatus,
    Recorded,
    RecordedCall,
    Recorder,
    call_of,
    read,
    recorders_of,
)
from dbg_wire.rank_set import format_ranks
from dbg_wire.recorder.entries import RecorderEntry
from dbg_wire.recorder.seen import (
    LIBRARY,
    bytes_of,
    entry_seen,
    global_rank,
    group_seen,
    key_of,
    may_be,
    name_of,
    shapes_text,
    types_text,
)
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp

BUFFER_VARIABLES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Environment variables for the number of entries that a recorder keeps; the second is the older name."""

CHECKS_VARIABLE = "TORCH_DISTRIBUTED_DEBUG"
"""Environment variable that makes torch compare each collective between all ranks before it starts."""

OPEN_SECONDS = 5.0
"""Age, in seconds, at which an unfinished call may be a hang. From then on the line that made it is searched for."""

_before = LastStatus()

_call_places = CallPlaces()

Seen = SourceSeen | GroupSeen | CollectiveSeen


def torch_seen(is_still: bool) -> list[Seen]:
    """Return the records about torch; empty if it is not loaded. For ``is_still`` see :func:`.flight_recorder.read`."""
    torch, module = sys.modules.get("torch"), sys.modules.get(MODULE)
    if torch is None:
        return []
    version = _version(torch)
    groups = process_groups(module) if module is not None else []
    if module is None or not groups:
        return [_source(version, "torch.distributed is not initialised, or all its groups are destroyed")]
    native = sys.modules.get(NATIVE_MODULE)
    recorders = recorders_of(native) if native is not None else []
    states = {recorder.backend: read(recorder, _before, is_still=is_still) for recorder in recorders}
    entries = [entry for recorded in states.values() for entry in recorded.entries or ()]
    calls = calls_on_stacks(module)
    return [
        _source(version, _lack(version, groups, states) or _lack_of_names(entries)),
        *_groups_seen(groups, entries, calls, states),
        *_entries_seen(groups, entries, calls, _places(recorders, entries, calls)),
        *_calls_seen(groups, entries, calls, states),
        *_new_groups_seen(groups_being_created(module, groups[0].ranks)),
    ]


def _version(torch: ModuleType) -> str:
    version = vars(torch).get("__version__")
    # torch.__version__ belongs to a subclass of str. It is converted to a plain str.
    return str.__str__(version) if isinstance(version, str) else ""


def _source(version: str, limitation: str) -> SourceSeen:
    return clamp(SourceSeen, library=LIBRARY, version=version, limitation=limitation)


def _lack(version: str, groups: Sequence[Group], states: dict[str, Recorded]) -> str:
    """Return why data of torch is missing, and the remedy; empty if it is complete."""
    failures = {recorded.failure for recorded in states.values() if recorded.failure}
    if failures:
        return f"torch's flight recorder can't be read ({', '.join(sorted(failures))})"
    backends = dict.fromkeys(backend for group in groups for backend in group.backends if group.sequence)
    silent = [
        backend
        for backend in backends
        if not (backend in states and (states[backend].is_used or states[backend].is_on))
    ]
    if not silent or any(recorded.is_used for recorded in states.values()):
        return ""
    if silent[0] not in states:
        return f"torch {version} has no flight recorder for {silent[0]}; the rank's call is taken from its stack"
    return _remedy(version)


def _lack_of_names(entries: Sequence[RecorderEntry]) -> str:
    """Return why no entry names its group, or an empty string if one does. torch's collective checks hide the names."""
    if not entries or any(entry.group for entry in entries):
        return ""
    return f"{CHECKS_VARIABLE}=DETAIL hides group names from the flight recorder; the call is taken from the stack"


def _remedy(version: str) -> str:
    off = [f"{name}={os.environ[name]}" for name in BUFFER_VARIABLES if name in os.environ]
    if off:
        return f"{off[0]} switches torch's flight recorder off; start the job with 2000 instead of 0"
    older = f"{BUFFER_VARIABLES[1]} before torch 2.9"
    remedy = f"{BUFFER_VARIABLES[0]}=2000 in the job's environment ({older}) switches it on"
    return f"torch {version}'s flight recorder has recorded nothing; {remedy}"


# ------------------------------------------------------------------------------------------------------------- groups


def _groups_seen(
    groups: list[Group], entries: Sequence[RecorderEntry], calls: Sequence[Call], states: dict[str, Recorded]
) -> list[Seen]:
    return [
        _unread(seen, states.get(library)) if len(groups) == 1 else seen
        for group in groups
        for library in _libraries(group, entries)
        for counted in [_called(library, group, groups, calls, states)]
        for seen in [group_seen(group.name, library, entries, title=group.title, ranks=group.ranks, counted=counted)]
    ]


def _unread(seen: GroupSeen, recorded: Recorded | None) -> GroupSeen:
    """Add the recorder's numbers to a rank's only group if the recorder's entries were not read.

    With several groups this is impossible, because the numbers don't name their group.
    """
    if recorded is None or recorded.entries is not None or len(recorded.numbers) != 1:
        return seen
    ((enqueued, completed),) = recorded.numbers
    return seen.replace(enqueued=enqueued, completed=completed)


def _libraries(group: Group, entries: Sequence[RecorderEntry]) -> list[str]:
    """Return the backends of the group that have recorded something, else its first backend."""
    used = dict.fromkeys(entry.library for entry in entries if entry.group == group.name)
    return list(used) or list(group.backends[:1]) or ["unknown"]


def _called(
    library: str, group: Group, groups: list[Group], calls: Sequence[Call], states: dict[str, Recorded]
) -> int | None:
    """Return how many collectives were called on a group without recorded collectives, or None if unknown."""
    if library in states and states[library].is_on and not states[library].is_used:
        # The recorder is on and has recorded no collective. The group's own count includes gloo's sends and receives,
        # which are not recorded.
        return 0
    return _counted(library, group, groups, calls, states)


def _counted(
    library: str, group: Group, groups: list[Group], calls: Sequence[Call], states: dict[str, Recorded]
) -> int | None:
    """Return how many collectives the group itself has counted; None if unknown, or if a recorder has the number."""
    if group.sequence is None:
        return None
    if library == "nccl":
        return group.sequence
    if library in states and states[library].is_used:
        return None
    # gloo's count includes sends and receives. Only unfinished ones can be subtracted, because the stacks show no
    # others.
    return group.sequence - sum(call.is_p2p and group_of(call, groups) is group for call in calls)


# -------------------------------------------------------------------------------------------------------- collectives


def _places(
    recorders: Sequence[Recorder], entries: Sequence[RecorderEntry], calls: Sequence[Call]
) -> dict[RecordedCall, Place | None]:
    """Return where the program made each old call that is unfinished and on no thread's stack.

    Such a call is asynchronous: the program may wait for its result later.
    """
    before = time.time_ns() - int(OPEN_SECONDS * 1e9)
    old = [entry for entry in entries if entry.is_unfinished and entry.created < before]
    left = [entry for entry in old if not any(_is_of(call, entry) for call in calls)]
    found: dict[RecordedCall, Place | None] = {}
    for recorder in recorders:
        if wanted := [call_of(entry) for entry in left if entry.library == recorder.backend]:
            found.update(_call_places.read(recorder, wanted))
    return found


def _entries_seen(
    groups: list[Group],
    entries: Sequence[RecorderEntry],
    calls: Sequence[Call],
    places: Mapping[RecordedCall, Place | None],
) -> list[CollectiveSeen]:
    by_name = {group.name: group for group in groups}
    # Recorders don't record the root of a collective, so the roots are taken from the stacks.
    on_stack = {
        id(entry): (call, group)
        for call in calls
        for group in [group_of(call, groups)]
        if group is not None
        for entry in _entries_of(call, group, entries)
    }
    now = time.time_ns()
    return [
        entry_seen(
            by_name[entry.group].ranks,
            entry,
            now=now,
            root=_global_of(*found, found[0].root) if found is not None else None,
            place=found[0].place if found is not None else places.get(call_of(entry)),
            function=found[0].name if found is not None else "",
        )
        for entry in entries
        if entry.group in by_name
        for found in [on_stack.get(id(entry))]
    ]


def _is_of(call: Call, entry: RecorderEntry) -> bool:
    return may_be(call.name, name_of(entry.name)[0], entry.library)


def _entries_of(call: Call, group: Group, entries: Sequence[RecorderEntry]) -> list[RecorderEntry]:
    """Return the recorder's entries of a thread's call: the most recent unfinished ones that match."""
    found = [one for one in entries if one.group == group.name and one.is_unfinished and _is_of(call, one)]
    # gloo uses a separate collective for each tensor of a list.
    is_list = call.name == "reduce_scatter" and any(name_of(one.name)[0] == "all_reduce" for one in found[-1:])
    return sorted(found, key=lambda entry: entry.sequence)[-(len(group.ranks) if is_list else 1) :]


def _global_of(call: Call, group: Group, number: int | None) -> int | None:
    """Return the global rank of the peer or root of a call, or None if unknown."""
    found = global_rank(group.ranks, number) if call.is_local else number
    return found if found is not None and found >= 0 else None


def _calls_seen(
    groups: list[Group], entries: Sequence[RecorderEntry], calls: Sequence[Call], states: dict[str, Recorded]
) -> list[CollectiveSeen]:
    """Return the calls on stacks that no recorder has: gloo's sends and receives, or all calls without a recorder."""
    found = []
    for call in calls:
        group = group_of(call, groups)
        if group is None:
            continue
        if not _is_recorded(call, group, entries, states):
            library = _libraries(group, entries)[0]
            # The thread's call usually is the most recent one of the group, so the group's count is the call's number.
            sequence = None if call.is_p2p else _counted(library, group, groups, calls, states)
            found.append(_call_seen(call, group, library, sequence))
    return found


def _new_groups_seen(making: Sequence[tuple[int, ...]]) -> list[Seen]:
    """Return each group that threads are creating, with one collective ``new_group``, in which the members wait."""
    found: list[Seen] = []
    for ranks in dict.fromkeys(making):
        title = format_ranks(ranks)
        name = f"new_group {title}"
        group = clamp(GroupSeen, library=LIBRARY, name=name, title=title, members=title, size=len(ranks))
        call = clamp(CollectiveSeen, group=name, name="new_group", state=CollectiveState.ENQUEUED)
        found += [group, call]
    return found


def _is_recorded(call: Call, group: Group, entries: Sequence[RecorderEntry], states: dict[str, Recorded]) -> bool:
    recorded = [states[backend] for backend in group.backends if backend in states and states[backend].is_used]
    if call.is_p2p:
        return any(e.group == group.name and e.is_p2p and e.is_unfinished for e in entries)
    # While the program makes progress, entries are not read. The collective is then taken from the stack, without its
    # number.
    return any(one.entries is not None for one in recorded) and any(
        entry.group == group.name and entry.is_unfinished for entry in entries
    )


def _call_seen(call: Call, group: Group, library: str, sequence: int | None) -> CollectiveSeen:
    shapes, types = shape_of(call.tensor)
    return clamp(
        CollectiveSeen,
        group=key_of(group.name, library),
        name=call.name,
        state=CollectiveState.ENQUEUED,
        sequence=sequence,
        peer=_global_of(call, group, call.peer),
        is_receive=call.name == "recv",
        tag=call.tag,
        root=_global_of(call, group, call.root),
        place=call.place,
        shapes=shapes_text(shapes),
        types=types_text(types),
        size=bytes_of(shapes, types),
    )
