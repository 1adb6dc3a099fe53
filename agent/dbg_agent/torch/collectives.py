"""What this process's torch knows of collectives, as records of an answer."""

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
    groups_in_making,
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
from dbg_wire.recorder.entries import Entry
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
from dbg_wire.records.record import fitted

BUFFER_VARIABLES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Variables by which a user sets the entries that a recorder keeps; the second is the older name."""

CHECKS_VARIABLE = "TORCH_DISTRIBUTED_DEBUG"
"""A variable that makes torch compare each collective of all ranks before it begins."""

OPEN_SECONDS = 5.0
"""Seconds after which a call that has not finished may hang, so that it is worth some work to know its place."""

_before = LastStatus()

_call_places = CallPlaces()

Seen = SourceSeen | GroupSeen | CollectiveSeen


def torch_seen(is_still: bool) -> list[Seen]:
    """Return what torch tells; empty if the program has not loaded it. ``is_still`` is that of flight_recorder.read."""
    torch, module = sys.modules.get("torch"), sys.modules.get(MODULE)
    if torch is None:
        return []
    version = _version(torch)
    groups = process_groups(module) if module is not None else []
    if module is None or not groups:
        return [_source(version, "torch.distributed is not initialised, or has no group left")]
    native = sys.modules.get(NATIVE_MODULE)
    recorders = recorders_of(native) if native is not None else []
    told = {recorder.backend: read(recorder, _before, is_still=is_still) for recorder in recorders}
    entries = [entry for recorded in told.values() for entry in recorded.entries or ()]
    calls = calls_on_stacks(module)
    return [
        _source(version, _lack(version, groups, told) or _lack_of_names(entries)),
        *_groups_seen(groups, entries, calls, told),
        *_entries_seen(groups, entries, calls, _places(recorders, entries, calls)),
        *_calls_seen(groups, entries, calls, told),
        *_new_groups_seen(groups_in_making(module, groups[0].ranks)),
    ]


def _version(torch: ModuleType) -> str:
    version = vars(torch).get("__version__")
    # torch has a class of its own for it, a kind of text.
    return str.__str__(version) if isinstance(version, str) else ""


def _source(version: str, lack: str) -> SourceSeen:
    return fitted(SourceSeen, library=LIBRARY, version=version, lack=lack)


def _lack(version: str, groups: Sequence[Group], told: dict[str, Recorded]) -> str:
    """Say what torch can't tell and what would change that; empty if it tells all."""
    failures = {recorded.failure for recorded in told.values() if recorded.failure}
    if failures:
        return f"torch's flight recorder can't be read ({', '.join(sorted(failures))})"
    backends = dict.fromkeys(backend for group in groups for backend in group.backends if group.sequence)
    silent = [
        backend for backend in backends if not (backend in told and (told[backend].is_used or told[backend].is_on))
    ]
    if not silent or any(recorded.is_used for recorded in told.values()):
        return ""
    if silent[0] not in told:
        return f"torch {version} has no flight recorder for {silent[0]}: the stack tells what it waits in"
    return _remedy(version)


def _lack_of_names(entries: Sequence[Entry]) -> str:
    """Say that entries can't be told apart: torch's checks of each collective put another backend in front."""
    if not entries or any(entry.group for entry in entries):
        return ""
    return f"{CHECKS_VARIABLE}=DETAIL keeps the names of groups from torch's flight recorder: the stack tells the call"


def _remedy(version: str) -> str:
    off = [f"{name}={os.environ[name]}" for name in BUFFER_VARIABLES if name in os.environ]
    if off:
        return f"{off[0]} switches torch's flight recorder off; 2000 instead of 0 switches it on when a job starts"
    older = f"{BUFFER_VARIABLES[1]} before torch 2.9"
    remedy = f"{BUFFER_VARIABLES[0]}=2000 in a job's environment ({older}) changes that"
    return f"torch {version} has recorded nothing; {remedy}"


# ------------------------------------------------------------------------------------------------------------- groups


def _groups_seen(
    groups: list[Group], entries: Sequence[Entry], calls: Sequence[Call], told: dict[str, Recorded]
) -> list[Seen]:
    return [
        _unread(seen, told.get(library)) if len(groups) == 1 else seen
        for group in groups
        for library in _libraries(group, entries)
        for counted in [_called(library, group, groups, calls, told)]
        for seen in [group_seen(group.name, library, entries, title=group.title, ranks=group.ranks, counted=counted)]
    ]


def _unread(seen: GroupSeen, recorded: Recorded | None) -> GroupSeen:
    """Add the numbers of the only group there is, if the entries of its recorder were not read."""
    if recorded is None or recorded.entries is not None or len(recorded.numbers) != 1:
        return seen
    ((enqueued, completed),) = recorded.numbers
    return seen.replace(enqueued=enqueued, completed=completed)


def _libraries(group: Group, entries: Sequence[Entry]) -> list[str]:
    """Return the backends of a group that have recorded something; if none has, the one that would be asked first."""
    used = dict.fromkeys(entry.library for entry in entries if entry.group == group.name)
    return list(used) or list(group.backends[:1]) or ["unknown"]


def _called(
    library: str, group: Group, groups: list[Group], calls: Sequence[Call], told: dict[str, Recorded]
) -> int | None:
    """Return how many collectives a group without a recorded one has called; None if that is not known."""
    if library in told and told[library].is_on and not told[library].is_used:
        # Sends and receives of gloo are not recorded, and the group's own count has them.
        return 0
    return _counted(library, group, groups, calls, told)


def _counted(
    library: str, group: Group, groups: list[Group], calls: Sequence[Call], told: dict[str, Recorded]
) -> int | None:
    """Return how many collectives a group has counted by itself; None if a recorder tells, or nobody can."""
    if group.sequence is None:
        return None
    if library == "nccl":
        return group.sequence
    if library in told and told[library].is_used:
        return None
    # gloo counts sends and receives as well. At least those that are not over are known.
    return group.sequence - sum(call.is_p2p and group_of(call, groups) is group for call in calls)


# -------------------------------------------------------------------------------------------------------- collectives


def _places(
    recorders: Sequence[Recorder], entries: Sequence[Entry], calls: Sequence[Call]
) -> dict[RecordedCall, Place | None]:
    """Return where calls were made that no thread is in: their program waits for them later, or is elsewhere."""
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
    entries: Sequence[Entry],
    calls: Sequence[Call],
    places: Mapping[RecordedCall, Place | None],
) -> list[CollectiveSeen]:
    by_name = {group.name: group for group in groups}
    # No recorder has roots.
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


def _is_of(call: Call, entry: Entry) -> bool:
    return may_be(call.name, name_of(entry.name)[0], entry.library)


def _entries_of(call: Call, group: Group, entries: Sequence[Entry]) -> list[Entry]:
    """Return what a recorder has of the call that a thread is in: of several such, that are open, the last one."""
    found = [one for one in entries if one.group == group.name and one.is_unfinished and _is_of(call, one)]
    # gloo reduces each tensor of a list by a collective of its own.
    is_list = call.name == "reduce_scatter" and any(name_of(one.name)[0] == "all_reduce" for one in found[-1:])
    return sorted(found, key=_sequence)[-(len(group.ranks) if is_list else 1) :]


def _sequence(entry: Entry) -> int:
    return entry.sequence


def _global_of(call: Call, group: Group, number: int | None) -> int | None:
    """Return the global rank of the partner or root of a call; None if it isn't known."""
    found = global_rank(group.ranks, number) if call.is_local else number
    return found if found is not None and found >= 0 else None


def _calls_seen(
    groups: list[Group], entries: Sequence[Entry], calls: Sequence[Call], told: dict[str, Recorded]
) -> list[CollectiveSeen]:
    """Return the calls on stacks that no recorder has: gloo records no sends and receives, and old torch nothing."""
    found = []
    for call in calls:
        group = group_of(call, groups)
        if group is None:
            continue
        if not _is_recorded(call, group, entries, told):
            library = _libraries(group, entries)[0]
            # The call that a thread is in is mostly the last one that the group has counted.
            sequence = None if call.is_p2p else _counted(library, group, groups, calls, told)
            found.append(_call_seen(call, group, library, sequence))
    return found


def _new_groups_seen(making: Sequence[tuple[int, ...]]) -> list[Seen]:
    """Return the groups that threads are making, as collectives of their own: each waits for its members alone."""
    found: list[Seen] = []
    for ranks in dict.fromkeys(making):
        title = format_ranks(ranks)
        name = f"new_group {title}"
        group = fitted(GroupSeen, library=LIBRARY, name=name, title=title, members=title, size=len(ranks))
        call = fitted(CollectiveSeen, group=name, name="new_group", state=CollectiveState.ENQUEUED)
        found += [group, call]
    return found


def _is_recorded(call: Call, group: Group, entries: Sequence[Entry], told: dict[str, Recorded]) -> bool:
    recorded = [told[backend] for backend in group.backends if backend in told and told[backend].is_used]
    if call.is_p2p:
        return any(e.group == group.name and e.is_p2p and e.is_unfinished for e in entries)
    # A program that moves has its entries not read: its stack tells a collective, without the number.
    return any(one.entries is not None for one in recorded) and any(
        entry.group == group.name and entry.is_unfinished for entry in entries
    )


def _call_seen(call: Call, group: Group, library: str, sequence: int | None) -> CollectiveSeen:
    shapes, types = shape_of(call.tensor)
    return fitted(
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
