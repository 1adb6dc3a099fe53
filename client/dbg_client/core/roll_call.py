"""Which ranks of a job should be there and aren't: those that have exited while others live, those that never came.

Pure. Children and stock debuggers are not counted: no world size tells of them.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from dbg_client.targets import Numbers, Target, Term, Word
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState, describe_exit

MAX_WORLD = 100_000
"""World sizes above this are not believed: the ranks that never came would fill the memory of a terminal."""


class Missing(str, enum.Enum):
    """Say why a rank is missing."""

    EXITED = "exited"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRanks:
    """Hold the ranks of one job that are missing for the same reason.

    ``text`` says how exited ones ended, and ``since`` is when the first of them did, in seconds since the epoch; None
    for ranks that never came.
    """

    job: str
    numbers: tuple[int, ...]
    state: Missing
    text: str
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollCall:
    """Tell of one run how many ranks its world has, how many have connected at some time, and who of it is missing.

    ``world`` is None where no rank knows.
    """

    job: str
    world: int | None
    connected: int
    missing: tuple[MissingRanks, ...]

    @property
    def exited(self) -> tuple[MissingRanks, ...]:
        """Return the groups of those that have exited."""
        return tuple(missing for missing in self.missing if missing.state is Missing.EXITED)

    @property
    def absent(self) -> tuple[int, ...]:
        """Return the numbers of those that never came."""
        return tuple(n for missing in self.missing if missing.state is Missing.ABSENT for n in missing.numbers)


Run = tuple[str, str]
"""Job and run: the ranks that were launched together."""


def live_runs(ranks: Iterable[RankInfo]) -> frozenset[Run]:
    """Return the runs of which somebody lives; in a job of which nobody does, those with ranks that may live."""
    states: defaultdict[str, defaultdict[str, set[RankState]]] = defaultdict(lambda: defaultdict(set))
    for rank in ranks:
        if not rank.is_classic:
            states[rank.job][rank.run].add(rank.state)
    found: set[Run] = set()
    for job, runs in states.items():
        living = [run for run, there in runs.items() if there & LIVE_STATES]
        found.update((job, run) for run in living or [run for run, there in runs.items() if RankState.LOST in there])
    return frozenset(found)


def ended_of_live_runs(ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the newest exited process of each rank that is missing in a run that is live."""
    return [rank for gone in _runs(ranks).values() for rank in _ended(gone)]


def never_came(run: Iterable[RankInfo]) -> tuple[int, ...]:
    """Return the numbers below the world size of one run that no rank has, exited or not."""
    members = [rank for rank in run if rank.child is None and not rank.is_classic]
    connected = {rank.rank for rank in members}
    return tuple(number for number in range(_believed_world(members)) if number not in connected)


def call_roll(
    ranks: Sequence[RankInfo], target: Target | None = None, asked: Collection[str] | None = None
) -> list[RollCall]:
    """Return what is known of each live run of which ranks are missing that the target means; None means all.

    A target means a rank that is missing if it means the whole job or names its number. ``asked`` are the keys of
    ranks that are told of elsewhere: they are not missing, and only their jobs are looked at.
    """
    known = asked or ()
    jobs = {rank.job for rank in ranks if rank.key in known} if asked is not None else None
    calls = []
    for (job, _), run in sorted(_runs(ranks).items()):
        if jobs is None or job in jobs:
            call = _call_of(job, run, _meant(target, job), known)
            if call.missing:
                calls.append(call)
    return calls


def _runs(ranks: Sequence[RankInfo]) -> dict[Run, list[RankInfo]]:
    live = live_runs(ranks)
    runs: defaultdict[Run, list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        if rank.child is None and not rank.is_classic and (rank.job, rank.run) in live:
            runs[rank.job, rank.run].append(rank)
    return runs


def _ended(run: Sequence[RankInfo]) -> list[RankInfo]:
    there = {rank.rank for rank in run if rank.state is not RankState.EXITED}
    newest: dict[int, RankInfo] = {}
    for rank in sorted(run, key=lambda rank: rank.since):
        if rank.rank not in there:
            newest[rank.rank] = rank
    return [newest[number] for number in sorted(newest)]


def _call_of(
    job: str, run: Sequence[RankInfo], is_meant: Callable[[int, str | None], bool], known: Collection[str]
) -> RollCall:
    connected = {rank.rank for rank in run}
    world = max((rank.world_size or 0 for rank in run), default=0) or None
    absent = tuple(number for number in never_came(run) if is_meant(number, None))
    ways: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in _ended(run):
        if rank.key not in known and is_meant(rank.rank, rank.host):
            ways[describe_exit(rank)].append(rank)
    missing = [
        MissingRanks(
            job=job,
            numbers=tuple(rank.rank for rank in gone),
            state=Missing.EXITED,
            text=text,
            since=min(rank.since for rank in gone),
        )
        for text, gone in ways.items()
    ]
    if absent:
        missing.append(MissingRanks(job=job, numbers=absent, state=Missing.ABSENT, text="never came"))
    return RollCall(job=job, world=world, connected=len(connected), missing=tuple(missing))


def _believed_world(run: Iterable[RankInfo]) -> int:
    size = max((rank.world_size or 0 for rank in run), default=0)
    return size if size <= MAX_WORLD else 0


def _meant(target: Target | None, job: str) -> Callable[[int, str | None], bool]:
    """Return what tells whether a target means a missing rank, by its number and its host if that is known."""
    if target is None:
        return lambda number, host: True
    include = [term for term in target.include if term.fits_job(job)]
    exclude = [term for term in target.exclude if term.fits_job(job)]

    def is_meant(number: int, host: str | None) -> bool:
        if not any(_fits(term, number, host) for term in include):
            return False
        return not any(_fits(term, number, host) for term in exclude)

    return is_meant


def _fits(term: Term, number: int, host: str | None) -> bool:
    if term.pid is not None:
        return False
    if term.host is not None and (host is None or not term.host.fits(host)):
        return False
    what = term.what
    return what is Word.ALL or (isinstance(what, Numbers) and what.fits(number, None))
