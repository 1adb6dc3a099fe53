"""Pending collectives of a job: the ranks that have reached each, the missing ranks, and the waiting time. Pure.

A hanging rank waits in one collective of each group: the first one that it has called and not finished. The ranks that
have called this collective have reached it; the other members of the group are missing.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dbg_client.core.choose import Run
from dbg_client.why.process_groups import (
    ProcessGroup,
    RankEvidence,
    Roster,
    has_peer,
    inferred_group,
    process_groups,
    rosters,
)
from dbg_wire.libraries import collective_of
from dbg_wire.recorder.seen import may_be
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState

_ALIKE = frozenset(
    {"allreduce", "broadcast", "reduce", "allgather", "allgatherbase", "reducescatter", "bcast"}
    | {"allgatherintotensor", "allgathersingle", "reducescattertensor", "reducescattersingle"}
)
"""Collectives whose inputs have the same size and type in all ranks. Inputs of other collectives may differ."""


@dataclass(frozen=True, kw_only=True)
class PendingCollective:
    """Collective, send or receive that ranks of one run wait in. Ranks are identified by their numbers.

    ``calls`` are the calls of the waiting ranks. ``came`` are all ranks that have called the collective, including
    ranks that have finished it. ``finished`` are the finished calls that are still in a library's record. ``missing``
    ranks are known not to have called it; ``unheard`` ranks report nothing about the group. ``peer`` is the other rank
    of a send or receive. ``sequence`` is the call number, or None if the library has no call numbers. Properties that
    read the calls of all ranks are cached, because the line about each rank needs them.
    """

    group: ProcessGroup
    name: str
    sequence: int | None
    calls: Mapping[int, CollectiveSeen]
    came: tuple[int, ...]
    missing: tuple[int, ...]
    unheard: tuple[int, ...]
    peer: int | None = None
    is_receive: bool = False
    finished: Mapping[int, CollectiveSeen] = field(default_factory=dict)

    @cached_property
    def all_calls(self) -> dict[int, CollectiveSeen]:
        """Calls of the ranks that wait in this collective or have finished it."""
        return {**self.finished, **self.calls}

    @cached_property
    def waiting(self) -> tuple[int, ...]:
        """Ranks that wait in this collective."""
        return tuple(sorted(self.calls))

    @cached_property
    def has_peer(self) -> bool:
        """Whether this is a send or receive."""
        return self.is_receive or self.peer is not None or any(map(has_peer, self.calls.values()))

    @cached_property
    def is_recorded(self) -> bool:
        """Whether a library has recorded the callers of this collective. Otherwise they are inferred from stacks."""
        counts = any(member.seen.completed is not None for member in self.group.members.values())
        return not self.group.is_inferred and (
            (counts and not self.has_peer) or all(call.timeout is not None for call in self.calls.values())
        )

    @cached_property
    def roots(self) -> dict[int, list[int]]:
        """Each root, with the ranks that passed it to the call. Ranks whose root is unknown are omitted."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for number, call in sorted(self.all_calls.items()):
            if call.root is not None:
                found[call.root].append(number)
        return dict(found)

    @cached_property
    def age(self) -> float | None:
        """Seconds that the rank with the longest wait has waited; None if unknown."""
        return max((call.age for call in self.calls.values() if call.age is not None), default=None)

    @cached_property
    def seconds_left(self) -> float | None:
        """Seconds until the library times out in one of the ranks; None if unknown."""
        left = [
            call.timeout - call.age
            for call in self.calls.values()
            if call.timeout is not None and call.age is not None and call.timeout > call.age
        ]
        return min(left, default=None)

    @property
    def tag(self) -> int | None:
        """Tag of a send or receive. None for a wildcard, an unknown tag, and 0, which calls pass by default."""
        tag = next((call.tag for call in self.calls.values()), None) if self.has_peer else None
        return tag if tag is not None and tag > 0 else None

    @property
    def root(self) -> int | None:
        """Root of a collective, if all known roots are equal."""
        return next(iter(self.roots)) if len(self.roots) == 1 else None

    @property
    def call(self) -> str:
        """Name and number of the collective, as in ``all_reduce #3172``."""
        name = self.name or "a collective"
        return f"{name} #{self.sequence}" if self.sequence is not None else name

    @property
    def label(self) -> str:
        """Name and number of the collective, and its group, as in ``all_reduce #3172 of dp_0``."""
        return f"{self.call} of {self.group.title}" if self.group.label else self.call


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Process groups of one run, and the pending collectives of the run."""

    run: Run
    roster: Roster
    groups: tuple[ProcessGroup, ...]
    all_pending: tuple[PendingCollective, ...]
    children: tuple[RankEvidence, ...] = ()
    """Processes of the run that are not ranks."""


def match_collectives(everybody: Iterable[RankEvidence]) -> list[Matched]:
    """Return the groups and pending collectives of each run."""
    everybody = tuple(everybody)
    children = [one for one in everybody if one.rank.child is not None]
    return [
        replace(_matched(run, roster), children=tuple(one for one in children if (one.rank.job, one.rank.run) == run))
        for run, roster in rosters(everybody).items()
    ]


def pending_of_each(matched: Iterable[Matched]) -> dict[str, PendingCollective]:
    """Return the collective that each rank waits in, by the rank's key.

    If a rank waits in several collectives, the one with most missing ranks is returned.
    """
    found: dict[str, PendingCollective] = {}
    for one in matched:
        for pending in sorted(one.all_pending, key=_importance):
            by_name = {name: _as_called(name, pending) for name in {call.name for call in pending.calls.values()}}
            for number in pending.waiting:
                found.setdefault(one.roster[number].rank.key, by_name[pending.calls[number].name])
    return found


def _as_called(name: str, pending: PendingCollective) -> PendingCollective:
    """Return the collective for the callers of ``name``: ranks that called another name instead are not in ``came``."""
    if not name or pending.has_peer or {call.name for call in pending.all_calls.values()} == {name}:
        return pending
    others = {other for other, call in pending.all_calls.items() if call.name not in ("", name)}
    return replace(pending, name=name, came=tuple(other for other in pending.came if other not in others))


def _importance(pending: PendingCollective) -> tuple[object, ...]:
    return not pending.missing, -len(pending.missing), -(pending.age or 0.0), pending.group.label, pending.call


def _matched(run: Run, roster: Roster) -> Matched:
    groups = process_groups(run, roster)
    all_pending = [pending for group in groups for pending in (*_in_order(group, roster), *_with_peers(group, roster))]
    if not all_pending:
        inferred = inferred_group(run, roster)
        if inferred is not None:
            groups.append(inferred)
            all_pending = _in_order(inferred, roster)
    return Matched(run=run, roster=roster, groups=tuple(groups), all_pending=tuple(all_pending))


def _in_order(group: ProcessGroup, roster: Roster) -> list[PendingCollective]:
    """Return the pending collectives of a group.

    They are the first unfinished calls of the ranks; calls with the same number are one collective.
    """
    first: defaultdict[tuple[int | None, str], dict[int, CollectiveSeen]] = defaultdict(dict)
    for number, member in group.members.items():
        open_calls = member.open_calls
        call = min(open_calls, key=_sequence) if open_calls else _unlisted(group, number, roster[number])
        if call is not None:
            # Calls with one number belong to one collective, even if their names differ. Without numbers, calls with
            # one name belong to one collective.
            first[call.sequence, call.name if call.sequence is None else ""][number] = call
    found = [_pending_collective(group, sequence, calls, roster) for (sequence, _), calls in first.items()]
    return sorted(found, key=lambda pending: (_number(pending.sequence), pending.name))


def _pending_collective(
    group: ProcessGroup, sequence: int | None, calls: Mapping[int, CollectiveSeen], roster: Roster
) -> PendingCollective:
    came: list[int] = []
    missing: list[int] = []
    unheard: list[int] = []
    finished: dict[int, CollectiveSeen] = {}
    for number in group.numbers:
        member = group.members.get(number)
        call = member.call_of(sequence) if member is not None and sequence is not None else None
        if call is not None and call.state is CollectiveState.COMPLETED:
            finished[number] = call
        if number in calls:
            came.append(number)
        elif member is None:
            # If a rank with this library does not report the group, it has not created the group: the rank is missing.
            is_recorded = number in roster and roster[number].would_report(group.library)
            (missing if is_recorded else unheard).append(number)
        elif sequence is None:
            missing.append(number)
        elif member.called is None:
            (missing if member.seen.completed is None and all(map(has_peer, member.calls)) else unheard).append(number)
        else:
            (came if member.called >= sequence else missing).append(number)
    calls, ended = _as_functions(calls, finished)
    return PendingCollective(
        group=group,
        name=_usual_name(calls.values()),
        sequence=sequence,
        calls=calls,
        came=tuple(came),
        missing=tuple(missing),
        unheard=tuple(unheard),
        finished=ended,
    )


def _as_functions(*parts: Mapping[int, CollectiveSeen]) -> Sequence[Mapping[int, CollectiveSeen]]:
    """Return the calls of one collective, with one name if the library has several names for the same function."""
    names = {call.name for part in parts for call in part.values()}
    if len(names) < 2:
        return parts
    functions = sorted(names, key=lambda name: (name.endswith("_single"), name))

    def as_function(call: CollectiveSeen) -> CollectiveSeen:
        library = call.group.rpartition(":")[2]
        found = [name for name in functions if may_be(name, call.name, library)]
        later = found and functions.index(found[-1]) > functions.index(call.name)
        return call.replace(name=found[-1]) if later else call

    return [{number: as_function(call) for number, call in part.items()} for part in parts]


def _unlisted(group: ProcessGroup, number: int, one: RankEvidence) -> CollectiveSeen | None:
    """Return the collective that a rank is in, if its library reports only the number of calls; else None."""
    seen = group.members[number].seen
    if seen.enqueued is None or group.members[number].calls:
        return None
    name = collective_of(one.answer.frames)
    if name in ("new_group", "init_process_group"):
        # These functions create a group, and are not collectives of an existing group.
        return None
    if seen.completed is not None:
        if seen.completed >= seen.enqueued:
            return None
        return CollectiveSeen(
            group=group.name, name=name, state=CollectiveState.ENQUEUED, sequence=seen.completed + 1, age=one.answer.age
        )
    # The count does not show whether the last call has finished, so the stack decides. If all members have called
    # equally often, the call on the stack may be of another group.
    others = {member.seen.enqueued for member in group.members.values()}
    if not name or len(others) == 1:
        return None
    return CollectiveSeen(
        group=group.name, name=name, state=CollectiveState.ENQUEUED, sequence=seen.enqueued, age=one.answer.age
    )


def _with_peers(group: ProcessGroup, roster: Roster) -> list[PendingCollective]:
    """Return the pending sends and receives of a group: for each pair of ranks, the oldest of each direction."""
    found = []
    for number, member in group.members.items():
        waiting: dict[tuple[int | None, bool], CollectiveSeen] = {}
        for call in sorted(filter(has_peer, member.calls), key=_sequence):
            if call.state is not CollectiveState.COMPLETED:
                waiting.setdefault((call.peer, _receives(call)), call)
        found += [_exchange(group, number, call, roster) for call in waiting.values()]
    return found


def _exchange(group: ProcessGroup, number: int, call: CollectiveSeen, roster: Roster) -> PendingCollective:
    peer = call.peer
    if peer is None and len(group.numbers) == 2:
        peer = next((other for other in group.numbers if other != number), None)
    missing: list[int] = []
    unheard: list[int] = []
    if peer is not None and not _answers(group, peer, number, call):
        is_recorded = peer in roster and roster[peer].would_report(group.library)
        (missing if is_recorded else unheard).append(peer)
    return PendingCollective(
        group=group,
        name=call.name,
        sequence=call.sequence,
        calls={number: call},
        came=(number,),
        missing=tuple(missing),
        unheard=tuple(unheard),
        peer=peer,
        is_receive=_receives(call),
    )


def _answers(group: ProcessGroup, peer: int, number: int, call: CollectiveSeen) -> bool:
    """Return True if the peer waits in the other half of this send or receive, and the tags do not differ."""
    member = group.members.get(peer)
    return member is not None and any(
        other.peer in (number, None) and _receives(other) is not _receives(call) and not _have_other_tags(call, other)
        for other in member.calls
        if has_peer(other) and other.state is not CollectiveState.COMPLETED
    )


def _have_other_tags(call: CollectiveSeen, other: CollectiveSeen) -> bool:
    """Return True if both calls have known tags that differ."""
    tags = {one.tag for one in (call, other) if one.tag is not None and one.tag >= 0}
    return len(tags) > 1


def _receives(call: CollectiveSeen) -> bool:
    return call.is_receive or call.name.lower() in ("recv", "irecv", "mrecv")


def _usual_name(calls: Iterable[CollectiveSeen]) -> str:
    names = Counter(call.name for call in calls if call.name)
    return min(names, key=lambda name: (-names[name], name), default="")


def _sequence(call: CollectiveSeen) -> tuple[float, float]:
    return _number(call.sequence), -(call.age or 0.0)


def _number(sequence: int | None) -> float:
    return float("inf") if sequence is None else sequence


# --------------------------------------------------------------------------------------------------------- differences


class Difference(enum.Enum):
    """Kind of difference between the calls of one collective."""

    NAME = enum.auto()
    ROOT = enum.auto()
    DATA = enum.auto()


def difference_of(pending: PendingCollective) -> Difference | None:
    """Return the most severe difference between the calls of a collective; None if they agree."""
    if pending.has_peer:
        return None
    if len({call.name for call in pending.all_calls.values() if call.name}) > 1:
        return Difference.NAME
    # Compare roots only if no rank is missing, because a missing rank already explains the wait. Besides, if calls have
    # no numbers, the roots may come from two different collectives.
    if len(pending.roots) > 1 and not pending.missing:
        return Difference.ROOT
    # Finished calls count too: ranks that have passed less data may finish, while the others wait for more.
    payloads = {_payload(pending, number) for number in pending.all_calls} - {("", "")}
    return Difference.DATA if len(payloads) > 1 else None


def is_certain(pending: PendingCollective) -> bool:
    """Return True if ranks make different calls, and their library records the name of a call with its number.

    Then the difference is real, even if it is recent. Other libraries only count calls, and the name comes from a stack
    that is read at another time. So a name and a number may be of different calls, and a recent difference may not be
    real.
    """
    is_recorded = all(call.timeout is not None and call.sequence is not None for call in pending.all_calls.values())
    return is_recorded and difference_of(pending) is Difference.NAME


def sides(pending: PendingCollective) -> list[tuple[CollectiveSeen, list[int]]]:
    """Return the different calls of one collective with their ranks, the most frequent call first."""
    difference = difference_of(pending)
    calls: dict[object, CollectiveSeen] = {}
    found: defaultdict[object, list[int]] = defaultdict(list)
    for number, call in sorted(pending.all_calls.items()):
        key: object = call.name
        if difference is Difference.ROOT:
            key = call.root
        elif difference is Difference.DATA:
            key = (call.types, call.size, call.shapes) if _payload(pending, number) != ("", "") else None
        if key is not None:
            calls.setdefault(key, call)
            found[key].append(number)
    ordered = sorted(found.items(), key=lambda side: (-len(side[1]), side[1][0]))
    return [(calls[key], numbers) for key, numbers in ordered]


def is_parting(called: Sequence[tuple[CollectiveSeen, list[int]]]) -> bool:
    """Return True if the two most frequent calls have equally many ranks, so the culprit is unknown."""
    return len(called[0][1]) == len(called[1][1])


def _payload(pending: PendingCollective, number: int) -> tuple[str, int | str]:
    """Return the types and the size (or the shapes) of a call's data; empty if they may differ between ranks."""
    call = pending.all_calls[number]
    if call.name.lower().replace("_", "").strip() not in _ALIKE:
        return "", ""
    return call.types, call.size if call.size is not None else call.shapes
