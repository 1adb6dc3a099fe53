"""Flight-recorder dumps of torch as evidence. Pure.

A dump is used as the answer that its rank gave when it wrote the dump.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.core.choose import MAX_WORLD
from dbg_client.views.tree import own_frames
from dbg_client.why.explain import LAST_SNAPSHOT_SECONDS, Explanation, HangEvidence, JobSnapshot
from dbg_client.why.names import NamedRanks
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.show import place_of
from dbg_client.why.verdict import Finding, Topic, Verdict, VerdictKind
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.recorder.entries import Dump, RecordedGroup, RecorderEntry
from dbg_wire.recorder.seen import LIBRARY, NO_DESCRIPTION, entry_seen, group_seen, name_of, places_in
from dbg_wire.records.evidence import MAX_COLLECTIVES, CollectiveSeen, Evidence, GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place, Placement, RankIdentity, RankInfo, RankProcess, RankState

RUN = ("", "")
"""Job and run of ranks known only from dumps, which contain neither."""

FIRST_GROUP = "0"
"""torch's name of the group of all ranks."""

LATE_SECONDS = 900.0
"""Maximum delay of a dump after a collective's timeout, in seconds; a file with a later time is taken for a copy."""

MAX_PLACES = 8
"""Maximum number of different last calls that are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDump:
    """The dump of one rank; ``written`` is the time of its file, in wall-clock seconds."""

    rank: int
    dump: Dump
    written: float


def case_of_dumps(dumps: Sequence[RankDump]) -> HangEvidence:
    """Return the evidence of a job whose ranks have not moved since their dumps; ranks without a dump are silent."""
    world = _world(dumps)
    reported = {one.rank: _evidence_of(one, world) for one in dumps}
    everybody = [reported.get(number) or _silent(number, world) for number in sorted({*reported, *range(world)})]
    # Nothing moves in a dump, so both snapshots show the state at the end.
    snapshots = [JobSnapshot(at=at, everybody=everybody) for at in (0.0, LAST_SNAPSHOT_SECONDS)]
    return HangEvidence(snapshots=snapshots, now=max((one.written for one in dumps), default=0.0))


def explain_dumps(dumps: Sequence[RankDump]) -> Explanation:
    """Return the verdicts on the ranks that have left these dumps, without commands, because the ranks are gone."""
    found = case_of_dumps(dumps).explanation()
    lines = tuple(_lines(dumps, _world(dumps)))
    absent = frozenset(range(_world(dumps))) - {one.rank for one in dumps}
    verdicts = [_of_files(verdict, absent) for verdict in found.verdicts]
    if not any(entry.is_unfinished for one in dumps for entry in one.dump.entries):
        finding = Finding(topic=Topic.ALL_FINISHED, ranks=tuple(sorted(one.rank for one in dumps)))
        verdicts = [Verdict(kind=VerdictKind.UNKNOWN, job="", finding=finding, ranks=finding.ranks)]
    worst = next((at for at, one in enumerate(verdicts) if one.kind is not VerdictKind.BUSY), None)
    if worst is not None:
        verdicts[worst] = replace(verdicts[worst], lines=lines)
    return replace(found, verdicts=tuple(verdicts), missing=())


def _of_files(verdict: Verdict, absent: frozenset[int]) -> Verdict:
    if verdict.kind is VerdictKind.UNKNOWN and verdict.collective is None and set(verdict.ranks) <= absent:
        finding = Finding(topic=Topic.NO_DUMP, ranks=verdict.ranks)
        return replace(verdict, finding=finding, notes=(), next=None)
    return replace(verdict, next=None)


def _ranks(numbers: Iterable[int]) -> str:
    return NamedRanks(RUN, {}, several_jobs=False).ranks(numbers)


def _world(dumps: Sequence[RankDump]) -> int:
    """Return the number of ranks, inferred from the dumps' groups, because dumps do not contain the world size."""
    members = [rank for one in dumps for group in one.dump.groups.values() for rank in group.members]
    return min(max([*members, *(one.rank for one in dumps)], default=-1) + 1, MAX_WORLD)


# ------------------------------------------------------------------------------------------------ evidence of one rank


def _evidence_of(one: RankDump, world: int) -> RankEvidence:
    known = _groups(one.dump, world)
    by_group: defaultdict[tuple[str, str], list[RecorderEntry]] = defaultdict(list)
    for entry in one.dump.entries:
        by_group[entry.group, entry.library].append(entry)
    groups: list[GroupSeen] = []
    calls: list[CollectiveSeen] = []
    for (name, library), entries in by_group.items():
        members = known[name].members if name in known else ()
        title = known[name].title if name in known else _title(name, entries[-1].title)
        groups.append(group_seen(name, library, entries, title=title, ranks=members))
        # Drop the libraries' timeouts, which no longer matter.
        calls += [
            entry_seen(members, entry, now=_now(one, entry), place=_called_at(entry)).replace(timeout=None)
            for entry in _known_entries(entries)
        ]
    libraries = sorted({library for _, library in by_group}) or [""]
    for name, group in known.items():
        if not any(name == used for used, _ in by_group):
            groups.append(group_seen(name, libraries[0], (), title=group.title, ranks=group.members))
    evidence = Evidence(sources=(SourceSeen(library=LIBRARY),), groups=tuple(groups), collectives=tuple(calls))
    open_entries = [entry for entry in one.dump.entries if entry.is_unfinished]
    frames = places_in(open_entries[0]) if open_entries else ()
    rank = _rank(one.rank, world)
    age = next((call.age for call in calls if call.age is not None), None) if frames else None
    answer = RankAnswer(key=rank.key, kind=Kind.VALUE, text="running", frames=frames, age=age)
    return RankEvidence(rank=rank, answer=answer, evidence=evidence)


def _silent(number: int, world: int) -> RankEvidence:
    rank = _rank(number, world)
    return RankEvidence(rank=rank, answer=RankAnswer(key=rank.key, kind=Kind.SILENT, text="left no dump"))


def _rank(number: int, world: int) -> RankInfo:
    # The state is RUNNING, because a rank writes its dump while it runs.
    return RankInfo(
        identity=RankIdentity(key=f"/{number}", job=RUN[0], run=RUN[1], host="", rank=number),
        process=RankProcess(pid=0, script="", directory="", release="", python=""),
        address=f":{number}",
        state=RankState.RUNNING,
        placement=Placement(world_size=world),
    )


def _groups(dump: Dump, world: int) -> Mapping[str, RecordedGroup]:
    """Return the groups with members and titles. gloo's recorder stores no names, and its groups have no members."""
    groups = {
        name: RecordedGroup(title=_title(name, one.title), members=one.members)
        for name, one in dump.groups.items()
        if name
    }
    if FIRST_GROUP not in groups and any(entry.group == FIRST_GROUP for entry in dump.entries):
        groups[FIRST_GROUP] = RecordedGroup(title="default", members=tuple(range(world)))
    return groups


def _title(name: str, description: str) -> str:
    if description not in NO_DESCRIPTION:
        return description
    return "default" if name == FIRST_GROUP or description == "default_pg" else name[:12]


def _known_entries(entries: Sequence[RecorderEntry]) -> list[RecorderEntry]:
    """Return the entries of a rank to report: first the unfinished ones, then the others, each from old to new."""
    return sorted(entries, key=lambda entry: (not entry.is_unfinished, entry.sequence))[:MAX_COLLECTIVES]


def _now(one: RankDump, entry: RecorderEntry) -> int | None:
    """Return the time to which an entry's state refers, in nanoseconds; None if the file's time is unreliable."""
    seconds = one.written - entry.created / 1e9
    limit = entry.timeout / 1000 if entry.timeout > 0 else LATE_SECONDS
    return int(one.written * 1e9) if 0 <= seconds <= limit + LATE_SECONDS else None


def _called_at(entry: RecorderEntry) -> Place | None:
    return next(reversed(own_frames(places_in(entry))), None)


# ---------------------------------------------------------------------------------------------------- additional lines


def _lines(dumps: Sequence[RankDump], world: int) -> list[str]:
    """Return lines about the last calls of ranks that are in no collective, and about ranks without a dump."""
    lines = _last_calls(dumps)
    absent = sorted(set(range(world)) - {one.rank for one in dumps})
    if absent:
        lines.append(f"no dump of {_ranks(absent)} was found; {len(dumps)} of {world} ranks have left one")
    written = [one.written for one in dumps]
    if written and max(written) - min(written) > LATE_SECONDS:
        lines.append("the dumps were written at different times, so some may be of an earlier run")
    return lines


def _last_calls(dumps: Sequence[RankDump]) -> list[str]:
    calls: defaultdict[str, list[int]] = defaultdict(list)
    for one in dumps:
        entries = one.dump.entries
        if entries and not any(entry.is_unfinished for entry in entries):
            last = max(entries, key=lambda entry: entry.created)
            place = place_of(places_in(last))
            if place:
                calls[f"{printable(name_of(last.name)[0], 60)} #{last.sequence}, at {place}"].append(one.rank)
    return [f"{_ranks(numbers)} last called {call}" for call, numbers in list(calls.items())[:MAX_PLACES]]
