"""Evidence of ranks about a hang, and the process groups that the ranks of a run report. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dbg_client.core.choose import MAX_WORLD, Run
from dbg_wire.errors import BadTarget
from dbg_wire.libraries import collective_of
from dbg_wire.messages import Finding, RankAnswer
from dbg_wire.rank_set import format_ranks, parse_ranks
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, Evidence, GroupSeen, WaitKind, evidence_in
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

UNKNOWN = "unknown"
"""Used instead of a library's name if a rank reports a call without its group."""

STACKS = "stacks"
"""Used instead of a library's name for a group that is inferred from stacks, with all ranks as members.

This group is only used if no library reports a pending call.
"""

MAX_TITLE = 60
"""Maximum characters of a group's title in a label."""

MAX_TEXTS = 1024
"""Maximum number of cached member lists. A large mesh has some hundred groups."""

MAX_MEMBERS_SHOWN = 20
"""Maximum characters of the list of members, which follows the title in a label if several groups share the title."""

_POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "ssend", "bsend", "rsend", "sendrecv", "mrecv"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEvidence:
    """Rank with its answer, and the evidence in the answer, if any."""

    rank: RankInfo
    answer: RankAnswer
    evidence: Evidence | None = None

    @property
    def reports_collectives(self) -> bool:
        """Whether a library of the rank has reported groups or collectives."""
        return self.evidence is not None and bool(self.evidence.groups or self.evidence.collectives)

    @property
    def is_in_collective(self) -> bool:
        """Whether the main thread is in a collective, a send or a receive, or in another call of the same library.

        Some libraries keep a processor busy while they wait there.
        """
        waits = self.evidence.waits if self.evidence is not None else ()
        is_reported = any(wait.is_main and wait.kind is WaitKind.COLLECTIVE for wait in waits)
        return is_reported or bool(collective_of(self.answer.frames))

    @property
    def is_suspended(self) -> bool:
        """Whether a signal or a tracer has stopped the process."""
        process = self.evidence.process if self.evidence is not None else None
        return self.answer.found is Finding.SUSPENDED or (process is not None and process.state in ("T", "t"))

    def would_report(self, library: str) -> bool:
        """Return True if the rank would report a call in a group of this library.

        A rank that reports the library without a group also qualifies: mpi4py reports no group before its first call.
        """
        sources = self.evidence.sources if self.evidence is not None else ()
        return self.reports_collectives or any(source.library == library for source in sources)


Roster = Mapping[int, RankEvidence]
"""Ranks of one run by their numbers."""


def read_evidence(ranks: Sequence[RankInfo], answers: Sequence[RankAnswer]) -> list[RankEvidence]:
    """Return each rank with its answer and evidence."""
    return [
        RankEvidence(rank=rank, answer=answer, evidence=evidence_in(answer.rows))
        for rank, answer in zip(ranks, answers, strict=True)
    ]


def rosters(everybody: Iterable[RankEvidence]) -> dict[Run, Roster]:
    """Return the ranks of each run. If several processes have one number, a live one is used, or else the newest.

    Children and stock debuggers are omitted because they are not members of process groups under a rank's number.
    """
    found: defaultdict[Run, dict[int, RankEvidence]] = defaultdict(dict)
    for one in everybody:
        rank = one.rank
        if rank.child is None and not rank.is_classic:
            roster = found[rank.job, rank.run]
            if rank.rank not in roster or _currency(one) > _currency(roster[rank.rank]):
                roster[rank.rank] = one
    return {run: dict(sorted(roster.items())) for run, roster in sorted(found.items())}


def _currency(one: RankEvidence) -> tuple[bool, float, str]:
    return one.rank.state in LIVE_STATES, one.rank.since, one.rank.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Report of one rank on one group and its collectives."""

    seen: GroupSeen
    calls: tuple[CollectiveSeen, ...]

    @property
    def open_calls(self) -> list[CollectiveSeen]:
        """Unfinished collectives, without sends and receives."""
        return [call for call in self.calls if call.state is not CollectiveState.COMPLETED and not has_peer(call)]

    @property
    def called(self) -> int | None:
        """Number of the collective that the rank has called most recently; None if unknown."""
        if self.calls and self.seen.completed is None and all(map(has_peer, self.calls)):
            # If a rank reports only sends and receives, its number of enqueued calls may include them, so it is not the
            # number of a collective.
            return None
        numbers = [call.sequence for call in self.calls if call.sequence is not None and not has_peer(call)]
        return max((n for n in (*numbers, self.seen.enqueued, self.seen.completed) if n is not None), default=None)

    def call_of(self, sequence: int | None) -> CollectiveSeen | None:
        """Return the collective with this number, if the rank reports it."""
        return next((call for call in self.calls if call.sequence == sequence and not has_peer(call)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """Process group of one run.

    ``label`` is its displayed name, unique in the run. ``numbers`` are its global ranks, ``members`` the ranks that
    have reported it. ``library`` is STACKS if the group is only inferred.
    """

    run: Run
    library: str
    name: str
    label: str
    numbers: tuple[int, ...]
    members: Mapping[int, Member]

    @property
    def title(self) -> str:
        """Label for a sentence. The number that torch gives an unnamed group becomes ``group 3``."""
        return f"group {self.label}" if self.label.partition(" ")[0].isdecimal() else self.label

    @property
    def is_inferred(self) -> bool:
        """Whether the group is only inferred from stacks, so its members and calls are not certain."""
        return self.library == STACKS


def has_peer(call: CollectiveSeen) -> bool:
    """Return True if this is a send or a receive."""
    return call.peer is not None or call.is_receive or call.name.lower() in _POINT_TO_POINT


def process_groups(run: Run, roster: Roster) -> list[ProcessGroup]:
    """Return the groups that the libraries of these ranks report, ordered by label."""
    by_name: defaultdict[tuple[str, str, str], dict[int, Member]] = defaultdict(dict)
    for number, one in roster.items():
        if one.evidence is not None:
            for seen, calls in _reported_groups(one.evidence):
                key = seen.library, seen.name, seen.members
                by_name[key].setdefault(number, Member(seen=seen, calls=_with_ages(calls, one)))
    _join_unlisted(by_name)
    everybody = tuple(sorted({*range(world_size(roster) or 0), *roster}))
    groups = [
        ProcessGroup(
            run=run,
            library=library,
            name=name,
            label=_title(members.values()),
            numbers=_numbers(listed, members, everybody),
            members=members,
        )
        for (library, name, listed), members in by_name.items()
    ]
    return sorted(_with_labels(groups), key=lambda group: (group.label, group.library, group.name, group.numbers))


def inferred_group(run: Run, roster: Roster) -> ProcessGroup | None:
    """Return all ranks of a run as one group with the calls on their stacks; None without any call."""
    members = {
        number: Member(seen=GroupSeen(library=STACKS, name="", title=""), calls=_calls_on_stack(one))
        for number, one in roster.items()
        if one.answer.frames
    }
    if not any(member.calls for member in members.values()):
        return None
    numbers = sorted({*range(world_size(roster) or 0), *roster})
    return ProcessGroup(run=run, library=STACKS, name="", label="", numbers=tuple(numbers), members=members)


def world_size(roster: Roster) -> int | None:
    """Return the number of ranks of the run; None if it is unknown or not plausible."""
    size = max((one.rank.world_size or 0 for one in roster.values()), default=0)
    return size if 0 < size <= MAX_WORLD else None


def _reported_groups(evidence: Evidence) -> Iterable[tuple[GroupSeen, tuple[CollectiveSeen, ...]]]:
    calls: defaultdict[str, list[CollectiveSeen]] = defaultdict(list)
    for call in evidence.collectives:
        calls[call.group].append(call)
    for group in evidence.groups:
        yield group, tuple(calls.pop(group.name, ()))
    for name, unplaced in calls.items():
        yield GroupSeen(library=UNKNOWN, name=name, title=name), tuple(unplaced)


def _with_ages(calls: tuple[CollectiveSeen, ...], one: RankEvidence) -> tuple[CollectiveSeen, ...]:
    """Set the missing age of a current call to the age of the stack, which shows that call."""
    if one.answer.age is None or all(call.age is not None for call in calls) or not one.is_in_collective:
        return calls
    return tuple(
        call.replace(age=one.answer.age) if call.age is None and call.state is not CollectiveState.COMPLETED else call
        for call in calls
    )


def _calls_on_stack(one: RankEvidence) -> tuple[CollectiveSeen, ...]:
    name = collective_of(one.answer.frames)
    if not name or one.rank.state not in LIVE_STATES:
        # The last stack of an ended rank is still available, but is not current.
        return ()
    return (CollectiveSeen(group="", name=name, state=CollectiveState.STARTED, age=one.answer.age),)


def _join_unlisted(by_name: dict[tuple[str, str, str], dict[int, Member]]) -> None:
    """Add each report without a list of members to the group of the same name that has a list, if there is only one."""
    listing: defaultdict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for library, name, listed in by_name:
        if listed:
            listing[library, name].append((library, name, listed))
    for (library, name), same in listing.items():
        if (library, name, "") in by_name and len(same) == 1:
            by_name[same[0]] = by_name.pop((library, name, "")) | by_name[same[0]]


def _numbers(listed: str, members: Mapping[int, Member], everybody: tuple[int, ...]) -> tuple[int, ...]:
    if numbers := _parsed(listed):
        return tuple(sorted({*numbers, *members}))
    if any(member.seen.size == len(everybody) for member in members.values()):
        return everybody
    return tuple(sorted(members))


@lru_cache(MAX_TEXTS)
def _parsed(listed: str) -> tuple[int, ...]:
    """Parse a list of members. It is cached because a thousand ranks report the same text."""
    try:
        numbers = parse_ranks(listed) if listed else ()
    except BadTarget:
        return ()
    return tuple(sorted(numbers)) if len(numbers) <= MAX_WORLD else ()


def _title(members: Iterable[Member]) -> str:
    seen = [member.seen for member in members]
    titles = Counter(one.title or one.name or one.library.removeprefix(UNKNOWN) for one in seen)
    return min(titles, key=lambda title: (-titles[title], title))[:MAX_TITLE]


def _with_labels(groups: list[ProcessGroup]) -> list[ProcessGroup]:
    """Make labels unique: add the members to labels that several groups share, then the name if still necessary."""
    for way in (_with_members, _with_name):
        times = Counter(group.label for group in groups)
        groups = [group if times[group.label] == 1 else replace(group, label=way(group)) for group in groups]
    return groups


def _with_members(group: ProcessGroup) -> str:
    return f"{group.label} ({_clipped(format_ranks(group.numbers))})"


def _with_name(group: ProcessGroup) -> str:
    return f"{group.label} [{group.library} {group.name[:MAX_TITLE]}]"


def _clipped(names: str) -> str:
    return names if len(names) <= MAX_MEMBERS_SHOWN else f"{names[:MAX_MEMBERS_SHOWN].rpartition(',')[0]},…"
