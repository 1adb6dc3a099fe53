"""Which of the known ranks a target selects, and how one rank is named so that it alone is selected.

A term selects in these steps, each of which may leave nothing:

1. Ranks of its job, host and process id.
2. Numbers are global ranks. If the term names a host and no process id, and no global rank on that host fits, the
   numbers are local ranks; the selection's note says so. A reading that finds live ranks goes before a reading that
   finds only lost or exited ranks.
3. At one full address live ranks hide the others. Without live ranks the newest hides the older ones.
4. Exited ranks drop out if any other rank is left. While any job lives, the exited ranks of a job without live ranks
   drop out in any case, unless the term names their job or process.

A remembered group names processes of any job: only the first step is made for it.

The excluded ranks are then taken away from the ranks of all terms. The ranks that terms without a job have found must
be of one job: of the only job with live ranks, or else of the job that changed last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from dbg_wire.errors import MAX_OFFERED, AmbiguousTarget, BadTarget, NoSuchRank, printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState, rank_order
from dbg_wire.targets.grammar import Classic, Group, Numbers, Target, Term, Word, in_job, parse_target
from dbg_wire.targets.rank_set import format_ranks

__all__ = ["Selection", "Target", "parse_target", "select", "unique_target", "unique_targets"]

MAX_CANDIDATES = 64
"""Candidates for an ambiguous target; if more ranks fit, one rank of each job is named."""

MAX_NOTED_HOSTS = 4
"""Hosts that a note names, so that it stays one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The ranks that fit a target, ordered by job, rank and child.

    ``note`` tells the user which numbers were taken as local ranks. ``single`` says that the target by its form names
    one rank; ``ranks`` then holds one rank, except with ``any_job``.
    """

    ranks: tuple[RankInfo, ...]
    note: str | None
    single: bool


def select(target: Target, ranks: Sequence[RankInfo], *, any_job: bool = False) -> Selection:
    """Select the ranks that fit ``target``; at least one is returned.

    With ``any_job`` ranks of several jobs are returned, as for a list. Raise :class:`~dbg_wire.errors.NoSuchRank` if
    nothing fits, and :class:`~dbg_wire.errors.AmbiguousTarget` if a target without a job fits live ranks of several
    jobs, or if a target that names one rank fits several live ranks.
    """
    return _select(target, ranks, _living_jobs(ranks), any_job=any_job)


def _select(target: Target, ranks: Sequence[RankInfo], living: frozenset[str], *, any_job: bool = False) -> Selection:
    excluded = {rank.key: term for term in target.exclude for rank in _matching(term, ranks, by_job=True)}
    in_job: dict[str, Term] = {}
    loose: dict[str, Term] = {}
    hidden: list[RankInfo] = []
    for term in target.include:
        matching = _matching(term, ranks, by_job=any_job or term.job is not None)
        is_group = isinstance(term.what, Group)
        if not any_job and _means_the_present(term):
            hidden += [rank for rank in matching if _is_of_the_past(rank, living)]
            matching = [rank for rank in matching if not _is_of_the_past(rank, living)]
        matching = matching if is_group else _visible(matching)
        named = loose if term.job is None and not is_group else in_job
        named.update((rank.key, term) for rank in matching if rank.key not in excluded)
    found = loose | in_job
    chosen = [rank for rank in ranks if rank.key in found]
    if not chosen:
        known = sum(rank.state is not RankState.EXITED for rank in ranks)
        past = max(hidden, key=_age) if hidden else None
        past_name = f"{past.job}/{_typed(past)}" if past is not None else None
        raise NoSuchRank(target.text, known, past_name, len(ranks) - known)
    if not any_job:
        job = _one_job(target, [rank for rank in chosen if rank.key in loose], ranks)
        chosen = [rank for rank in chosen if rank.key in in_job or rank.job == job]
        chosen = _one_rank(target, chosen, ranks) if target.single else chosen
    jobs = {rank.job for rank in chosen}
    without = [rank for rank in ranks if rank.key in excluded and rank.job in jobs]
    notes = [*_local_notes("", chosen, found), *_local_notes("without ", without, excluded)]
    return Selection(ranks=tuple(sorted(chosen, key=rank_order)), note="; ".join(notes) or None, single=target.single)


def unique_target(rank: RankInfo, ranks: Sequence[RankInfo]) -> str:
    """Return the shortest target that selects ``rank`` alone among ``ranks``.

    It is ``host:rank``, else ``job/host:rank``, else ``job/host:rank@pid``. The last is returned as well if no target
    selects the rank alone: for two ranks of one full address and process id, or for a host or job whose name can't be
    written in a target.
    """
    return _unique(rank, [other for other in ranks if other.host == rank.host], _living_jobs(ranks))


def unique_targets(ranks: Sequence[RankInfo]) -> dict[str, str]:
    """Return :func:`unique_target` of each rank by its key, fast enough for thousands of ranks."""
    living = _living_jobs(ranks)
    near: defaultdict[tuple[str, int | str | None], list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        for number in {rank.rank, rank.local_rank, _classic_mark(rank)}:
            near[rank.host, number].append(rank)
    return {rank.key: _unique(rank, near[rank.host, _classic_mark(rank) or rank.rank], living) for rank in ranks}


def _living_jobs(ranks: Sequence[RankInfo]) -> frozenset[str]:
    return frozenset(rank.job for rank in ranks if rank.state in LIVE_STATES and not rank.is_classic)


def _means_the_present(term: Term) -> bool:
    """Tell whether a term leaves open which job or process it means."""
    return term.job is None and term.pid is None and not isinstance(term.what, (Group, Classic))


def _is_of_the_past(rank: RankInfo, living: frozenset[str]) -> bool:
    """Tell whether a rank has exited and its job has no live rank, while another job lives."""
    return rank.state is RankState.EXITED and bool(living) and rank.job not in living


def _unique(rank: RankInfo, near: Sequence[RankInfo], living: frozenset[str]) -> str:
    in_job = f"{rank.job}/{_typed(rank)}"
    is_hidden = _is_of_the_past(rank, living) and not rank.is_classic
    for text in (in_job,) if is_hidden else (_typed(rank), in_job):
        try:
            found = _select(parse_target(text), near, living).ranks
        except (BadTarget, AmbiguousTarget, NoSuchRank):
            continue
        if [other.key for other in found] == [rank.key]:
            return text
    return f"{rank.job}/{_typed(rank)}@{rank.pid}"


def _typed(rank: RankInfo) -> str:
    """Return the address as a user has to type it: a host that is a short number would be read as a slice."""
    short_number = len(rank.host) <= 8 and rank.host.isdecimal() and rank.address.startswith(f"{rank.host}:")
    return f"[{rank.host}]{rank.address[len(rank.host) :]}" if short_number else rank.address


def _classic_mark(rank: RankInfo) -> str | None:
    """Return ``?1`` for a classic session, whose ``rank`` means nothing, or None for a rank."""
    return rank.address.rpartition(":")[2] if rank.is_classic else None


def _matching(term: Term, ranks: Sequence[RankInfo], *, by_job: bool) -> list[RankInfo]:
    """Return the ranks that fit, in any state; ``by_job`` tells global from local numbers for each job on its own."""
    hosts = {rank.host: term.host is None or term.host.fits(rank.host) for rank in ranks}
    jobs = {job: term.fits_job(job) for job in {rank.job for rank in ranks}}
    pool = [rank for rank in ranks if jobs[rank.job] and term.pid in {None, rank.pid} and hosts[rank.host]]
    what = term.what
    if isinstance(what, Word):
        return [rank for rank in pool if what.fits(rank)]
    if isinstance(what, Group):
        return [rank for rank in pool if rank.key in what.keys]
    if isinstance(what, Classic):
        return [rank for rank in pool if _classic_mark(rank) == what.mark]
    pool = [rank for rank in pool if _classic_mark(rank) is None]
    if term.host is None or term.pid is not None:
        return [rank for rank in pool if what.fits(rank.rank, rank.child)]
    groups: defaultdict[tuple[str, str], list[RankInfo]] = defaultdict(list)
    for rank in pool:
        groups[rank.job if by_job else "", rank.host].append(rank)
    return [rank for group in groups.values() for rank in _global_or_local(what, group)]


def _global_or_local(numbers: Numbers, group: Sequence[RankInfo]) -> list[RankInfo]:
    as_global = [rank for rank in group if numbers.fits(rank.rank, rank.child)]
    as_local = [rank for rank in group if numbers.fits(rank.local_rank, rank.child)]
    for states in (LIVE_STATES, {RankState.LOST}, {RankState.EXITED}):
        for reading in (as_global, as_local):
            if any(rank.state in states for rank in reading):
                return reading
    return []


def _visible(matching: Sequence[RankInfo]) -> list[RankInfo]:
    live = [rank for rank in matching if rank.state in LIVE_STATES]
    taken = {rank.full_address for rank in live}
    gone: dict[str, RankInfo] = {}
    for rank in sorted(matching, key=_age):
        if rank.full_address not in taken:
            gone[rank.full_address] = rank
    shown = [*live, *gone.values()]
    return [rank for rank in shown if rank.state is not RankState.EXITED] or shown


def _one_job(target: Target, loose: Sequence[RankInfo], ranks: Sequence[RankInfo]) -> str | None:
    """Return the job that terms without a job mean, or None if they have found nothing."""
    live = [rank for rank in loose if rank.state in LIVE_STATES]
    if len({rank.job for rank in live}) > 1:
        raise AmbiguousTarget(target.text, _in_each_job(target, live, ranks), in_job(target.text, "*"))
    return max(live or loose, key=_age).job if loose else None


def _one_rank(target: Target, chosen: list[RankInfo], ranks: Sequence[RankInfo]) -> list[RankInfo]:
    """Return the only live rank, or the newest rank if none is live."""
    live = [rank for rank in chosen if rank.state in LIVE_STATES]
    if len(live) > 1:
        raise AmbiguousTarget(target.text, _candidates(live, ranks))
    return live or [max(chosen, key=_age)]


def _in_each_job(target: Target, live: Sequence[RankInfo], ranks: Sequence[RankInfo]) -> list[str]:
    """Return the target as one types it for each job of the live ranks, or their addresses where that would not do."""
    named: list[str] = []
    for number, job in enumerate(sorted({rank.job for rank in live})):
        text = in_job(target.text, job)
        # Of many jobs the first are named and the others only counted.
        if number >= MAX_OFFERED or _means_one_job(text, job, ranks):
            named.append(text)
        else:
            named += _candidates([rank for rank in live if rank.job == job], ranks)
    return named


def _means_one_job(text: str, job: str, ranks: Sequence[RankInfo]) -> bool:
    """Tell whether a target is of this job alone, and of one live rank if it is for one."""
    try:
        found = select(parse_target(text), ranks, any_job=True)
    except (BadTarget, NoSuchRank):
        return False
    live = sum(rank.state in LIVE_STATES for rank in found.ranks)
    return {rank.job for rank in found.ranks} == {job} and (live < 2 or not found.single)


def _candidates(live: Sequence[RankInfo], ranks: Sequence[RankInfo]) -> list[str]:
    """Name live ranks, one of each job in turn, so that the first few show every job."""
    times = Counter(rank.full_address for rank in ranks if rank.state in LIVE_STATES)
    jobs: defaultdict[str, list[str]] = defaultdict(list)
    for rank in sorted(live, key=rank_order):
        again = f"@{rank.pid}" if times[rank.full_address] > 1 else ""
        jobs[rank.job].append(f"{rank.job}/{_typed(rank)}{again}")
    names = [name for turn in zip_longest(*jobs.values()) for name in turn if name is not None]
    return names if len(names) <= MAX_CANDIDATES else names[: min(len(jobs), MAX_CANDIDATES)]


def _local_notes(lead: str, ranks: Sequence[RankInfo], terms: dict[str, Term]) -> list[str]:
    hosts: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in sorted(ranks, key=rank_order):
        term = terms[rank.key]
        if term.host is not None and isinstance(term.what, Numbers) and not term.what.fits(rank.rank, rank.child):
            hosts[rank.host].append(rank)
    notes = [f"{lead}{_local_note(host, taken)}" for host, taken in list(hosts.items())[:MAX_NOTED_HOSTS]]
    more = len(hosts) - len(notes)
    return [*notes, f"{lead}local ranks of {more} more hosts"] if more else notes


def _local_note(host: str, ranks: Sequence[RankInfo]) -> str:
    local = format_ranks(rank.local_rank for rank in ranks if rank.local_rank is not None)
    address = ranks[0].address if len(ranks) == 1 else f"{host}:{format_ranks(rank.rank for rank in ranks)}"
    return f"{printable(address)}, local {local}"


def _age(rank: RankInfo) -> tuple[float, str]:
    return rank.since, rank.key
