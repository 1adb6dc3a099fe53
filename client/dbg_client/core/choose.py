"""Selection of ranks to attach to, to list and to ask, and the missing ranks of a job. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from dbg_client.core.errors import NeverConnected, NotStopped, RankEnded, why_not_stopped
from dbg_command.targets import Numbers, Selection, Target, Term, Word, parse_target, select, unique_targets
from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.messages import Mode
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState, rank_order


@dataclass(frozen=True, slots=True)
class Choice:
    """Rank to attach to, a note for the user on how the target was read, and whether the user interrupted the rank."""

    rank: RankInfo
    note: str | None = None
    is_broken_into: bool = False

    def mode(self, wanted: Mode) -> Mode:
        """Return the mode to attach with. A user who interrupted the rank takes the keyboard, except with WATCH."""
        # Another terminal that follows the job also attaches to this stop, and gets the keyboard if it is first.
        return Mode.TAKE if self.is_broken_into and wanted is not Mode.WATCH else wanted


def find(target: Target, ranks: Sequence[RankInfo], *, any_job: bool = False) -> Selection:
    """Select as :func:`dbg_command.targets.select` does, but raise NeverConnected for ranks that never connected."""
    try:
        return select(target, ranks, any_job=any_job)
    except NoSuchRank as error:
        calls = [call for call in find_missing_ranks(ranks, target) if call.absent]
        if error.past is not None or len(calls) != 1:
            raise
        (call,) = calls
        names = format_ranks(call.absent)
        raise NeverConnected(target.text, call.job, names, call.connected, call.world or 0) from None


def choose(target: Target, ranks: Sequence[RankInfo]) -> Choice:
    """Return the only stopped rank of a target, or the only held rank, which stops when a terminal attaches.

    Raises NoSuchRank, AmbiguousTarget if several ranks are stopped, and NotStopped, LostRank or RankEnded if no rank is
    stopped.
    """
    found = find(target, ranks)
    ready = [rank for rank in found.ranks if is_ready(rank)]
    if len(ready) > 1:
        names = unique_targets(ranks)
        raise AmbiguousTarget(target.text, [names[rank.key] for rank in ready])
    if ready:
        return Choice(ready[0], found.note)
    if len(found.ranks) == 1 and may_be_picked(found.ranks[0]):
        return Choice(found.ranks[0], found.note)
    if len(found.ranks) == 1:
        raise why_not_stopped(found.ranks[0], target.text, attaching=True)
    ended = [rank for rank in found.ranks if rank.state is RankState.EXITED]
    if len(ended) == len(found.ranks):
        raise RankEnded(ended[0])
    raise NotStopped(f"none of the {len(found.ranks)} ranks that fit {target.text} is stopped", target.text)


def choose_when_ready(target: Target, ranks: Sequence[RankInfo], ended: RankInfo | None = None) -> Choice | None:
    """Return the rank to attach to for a user who waits, or None if no rank is ready.

    If several ranks are stopped, the first one is chosen. ``ended`` is the last listed state of a rank whose stop has
    just ended. Ranks of its job are preferred, then ranks with its script and directory. The stop that has ended is
    not chosen again. Raises AmbiguousTarget.
    """
    found = _select_preferring(target, ranks, ended)
    if found is None:
        return None
    ready = [rank for rank in found.ranks if is_ready(rank) and not _is_same_stop(rank, ended)]
    if not ready:
        return None
    again = [rank for rank in ready if ended is not None and rank.address == ended.address]
    return Choice((again or ready)[0], found.note)


def is_ready(rank: RankInfo) -> bool:
    """Return True if a terminal can attach: the rank is stopped, or was stopped when it became silent."""
    return rank.state is RankState.STOPPED or (rank.state is RankState.UNRESPONSIVE and rank.where is not None)


def may_be_picked(rank: RankInfo) -> bool:
    """Return True if a user who names the rank can attach. A held rank stops when a terminal attaches.

    A rank that is held at its exit has no place in the program to show.
    """
    return is_ready(rank) or (rank.state is RankState.HELD and rank.where is not None)


def neighbour(current: RankInfo, ranks: Sequence[RankInfo], step: int) -> RankInfo | None:
    """Return the next (``step`` 1) or previous (-1) stopped rank of the job, cyclically; None if there is no other."""
    stopped = sorted(
        (rank for rank in ranks if rank.job == current.job and is_ready(rank) and rank.key != current.key),
        key=rank_order,
    )
    if not stopped:
        return None
    if step > 0:
        return next((rank for rank in stopped if rank_order(rank) > rank_order(current)), stopped[0])
    return next((rank for rank in reversed(stopped) if rank_order(rank) < rank_order(current)), stopped[-1])


def _select_preferring(target: Target, ranks: Sequence[RankInfo], ended: RankInfo | None) -> Selection | None:
    pools = [ranks]
    if ended is not None:
        same_job = [rank for rank in ranks if rank.job == ended.job]
        same_script = [rank for rank in ranks if (rank.script, rank.directory) == (ended.script, ended.directory)]
        pools = [same_job, same_script, ranks]
    for pool in pools:
        try:
            found = select(target, pool)
        except NoSuchRank:
            continue
        if any(rank.state in LIVE_STATES for rank in found.ranks):
            return found
    return None


def _is_same_stop(rank: RankInfo, ended: RankInfo | None) -> bool:
    return ended is not None and (rank.key, rank.stop_id) == (ended.key, ended.stop_id)


def there(known: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the ranks of all jobs that have not exited, one per address."""
    left = [rank for rank in known if rank.state is not RankState.EXITED]
    return list(select(parse_target("all"), left, any_job=True).ranks) if left else []


def exited(known: Sequence[RankInfo], target: Target | None) -> list[RankInfo]:
    """Return the exited ranks that ``--all`` adds to the ranks of a target, or to all ranks without a target.

    If the target names jobs, the ranks belong to those jobs. Otherwise the ranks belong to live jobs, or to any job if
    no job is live.
    """
    gone = [rank for rank in known if rank.state is RankState.EXITED]
    if target is None or all(term.job is None for term in target.include):
        living = {rank.job for rank in known if rank.state in LIVE_STATES and not rank.is_classic}
        gone = [rank for rank in gone if not living or rank.job in living or rank.is_classic]
    return _fitting(target, gone)


def listed(
    known: Sequence[RankInfo], target: Target | None, found: Sequence[RankInfo], *, with_exited: bool
) -> list[RankInfo]:
    """Return the ranks to list, in any order; ``found`` are the ranks that match the target.

    The result includes the exited ranks of live runs, because a user must see that they are missing.
    """
    if with_exited:
        more = exited(known, target)
        shown = list(found if target is not None else there(known))
    else:
        more = _fitting(target, ended_of_live_runs(known))
        limit_rows = found if target is not None else there(known)
        shown = [rank for rank in limit_rows if rank.state is not RankState.EXITED]
    keys = {rank.key for rank in shown}
    return shown + [rank for rank in more if rank.key not in keys]


def _fitting(target: Target | None, gone: Sequence[RankInfo]) -> list[RankInfo]:
    if target is None or not gone:
        return list(gone)
    try:
        return list(select(target, gone, any_job=True).ranks)
    except NoSuchRank:
        return []


def ranks_of(job: str, ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the ranks of one job."""
    return [rank for rank in ranks if rank.job == job]


MAX_WORLD = 100_000
"""Maximum plausible world size. A larger one is ignored, so that a list of its missing ranks can't fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitedRanks:
    """Ranks of one run that have ended in the same way; ``since`` is the time of the first end."""

    numbers: tuple[int, ...]
    text: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRanks:
    """Missing ranks of one run: ranks that have exited, and the numbers of ranks that never connected.

    ``world`` is the expected number of ranks; None if unknown. ``connected`` is the number that has connected.
    """

    job: str
    world: int | None
    connected: int
    exited: tuple[ExitedRanks, ...]
    absent: tuple[int, ...]


Run = tuple[str, str]
"""Job and run, which identify ranks that were launched together."""


def live_runs(ranks: Iterable[RankInfo]) -> frozenset[Run]:
    """Return the runs with live ranks. In a job without live ranks, return the runs with lost ranks.

    A lost rank may still be alive.
    """
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
    """Return the newest exited process of each missing rank in a live run."""
    return [rank for gone in _runs(ranks).values() for rank in _ended(gone)]


def never_registered(run: Iterable[RankInfo]) -> tuple[int, ...]:
    """Return the numbers of one run's ranks that have never registered. All numbers are below the run's world size."""
    members = [rank for rank in run if rank.child is None and not rank.is_classic]
    connected = {rank.rank for rank in members}
    return tuple(number for number in range(_believed_world(members)) if number not in connected)


def find_missing_ranks(
    ranks: Sequence[RankInfo], target: Target | None = None, asked: Collection[str] | None = None
) -> list[ExpectedRanks]:
    """Return the missing ranks of each live run that ``target`` selects; None selects all.

    A target selects a missing rank if it selects the whole job or the rank's number. ``asked`` are the keys of ranks
    that the caller reports itself: the result does not contain them. Only the jobs of these ranks are searched.
    """
    known = asked or ()
    jobs = {rank.job for rank in ranks if rank.key in known} if asked is not None else None
    calls = []
    for (job, _), run in sorted(_runs(ranks).items()):
        if jobs is None or job in jobs:
            call = _call_of(job, run, _meant(target, job), known)
            if call.exited or call.absent:
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
) -> ExpectedRanks:
    connected = {rank.rank for rank in run}
    world = max((rank.world_size or 0 for rank in run), default=0) or None
    absent = tuple(number for number in never_registered(run) if is_meant(number, None))
    ways: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in _ended(run):
        if rank.key not in known and is_meant(rank.rank, rank.host):
            ways[rank.end.text].append(rank)
    exited_ones = [
        ExitedRanks(
            numbers=tuple(rank.rank for rank in gone),
            text=text,
            since=min(rank.since for rank in gone),
        )
        for text, gone in ways.items()
    ]
    return ExpectedRanks(job=job, world=world, connected=len(connected), exited=tuple(exited_ones), absent=absent)


def _believed_world(run: Iterable[RankInfo]) -> int:
    size = max((rank.world_size or 0 for rank in run), default=0)
    return size if size <= MAX_WORLD else 0


def _meant(target: Target | None, job: str) -> Callable[[int, str | None], bool]:
    """Return a predicate that is True if a target selects a missing rank, by its number and its host if known."""
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
