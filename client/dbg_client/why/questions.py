"""Queries that ask ranks for evidence of a hang, once or several times, and the verdicts on the evidence."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dbg_client.core.asking import Asker
from dbg_client.core.choose import ended_of_live_runs, live_runs
from dbg_client.core.wait_progress import Show, show_nobody
from dbg_client.why.collective_matching import Matched, match_collectives
from dbg_client.why.explain import LAST_SNAPSHOT_SECONDS, Explanation, HangEvidence, JobSnapshot, explain
from dbg_client.why.process_groups import RankEvidence, read_evidence
from dbg_client.why.sentences import sentence_of
from dbg_client.why.verdict import HARMLESS, Verdict, VerdictKind
from dbg_wire.errors import printable
from dbg_wire.messages import Action, DetailLevel, Hang, Message, RankAnswer
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import clamp

BETWEEN_SECONDS = 1.0
"""Seconds between two snapshots. With less, a working rank may still be at the same place."""


async def find_case(
    asker: Asker,
    chosen: Sequence[RankInfo],
    known: Sequence[RankInfo],
    *,
    show: Show = show_nobody,
    longest: float = LAST_SNAPSHOT_SECONDS,
) -> tuple[HangEvidence, Explanation]:
    """Query all ranks of the chosen ranks' runs until waiting ranks can be distinguished from working ones.

    Return the verdicts about the chosen ranks, or all verdicts if none is about them. One snapshot takes as long as the
    slowest rank; further snapshots follow for at most ``longest`` seconds. ``show`` displays the current wait. Raises
    DbgError if the broker fails.
    """
    ranks = ranks_of_runs(chosen, known)
    case, found = await gather_case(asker, ranks, show=show, longest=longest)
    return case, about(found, chosen, ranks)


async def gather_case(
    asker: Asker,
    ranks: Sequence[RankInfo],
    *,
    show: Show = show_nobody,
    longest: float = LAST_SNAPSHOT_SECONDS,
) -> tuple[HangEvidence, Explanation]:
    """Query all ranks of some runs, and return the case and all verdicts, as :func:`find_case` does."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    snapshots = [JobSnapshot(at=0.0, everybody=await _ask_evidence(asker, ranks))]
    now = time.time()
    # With ten thousand ranks this call takes seconds, and keys typed in this process must not wait for it.
    found = await asyncio.to_thread(explain, tuple(snapshots), now)
    # Compare the times at which snapshots start. On a busy host a snapshot may end late, and the time of its end would
    # stop the queries too early.
    while not found.is_settled and snapshots[-1].at < longest:
        show("checking again for progress")
        try:
            await asyncio.sleep(BETWEEN_SECONDS)
        finally:
            show(None)
        at = loop.time() - begun
        snapshots.append(JobSnapshot(at=at, everybody=await _ask_evidence(asker, ranks)))
        now = time.time()
        found = await asyncio.to_thread(explain, tuple(snapshots), now)
    return HangEvidence(snapshots=snapshots, now=now), found


def hangs_in(verdicts: Sequence[Verdict], known: Sequence[RankInfo] = (), *, unmoved: bool = False) -> list[Verdict]:
    """Return the worst verdict on each job that hangs; ``verdicts`` must be sorted, the worst first.

    With ``unmoved`` it is known that no rank makes progress, so an UNKNOWN verdict is also a hang. A verdict whose
    ranks are all stopped or held, according to ``known``, is not a hang, because a user stopped them.
    """
    found: dict[str, Verdict] = {}
    in_debugger = {(rank.job, rank.rank) for rank in known if rank.is_paused}
    for verdict in verdicts:
        is_hang = verdict.kind not in HARMLESS or (unmoved and verdict.kind is VerdictKind.UNKNOWN)
        is_stop = bool(verdict.ranks) and all((verdict.job, number) in in_debugger for number in verdict.ranks)
        if is_hang and not is_stop:
            found.setdefault(verdict.job, verdict)
    return list(found.values())


async def judge(
    asker: Asker,
    chosen: Sequence[RankInfo],
    known: Sequence[RankInfo],
    *,
    show: Show = show_nobody,
    unmoved: bool = False,
) -> tuple[HangEvidence, Explanation]:
    """Return the evidence and the verdicts on the runs of the chosen ranks, and report a hang to the broker.

    With ``unmoved`` it is known that no rank makes progress. Raises DbgError if the broker fails.
    """
    case, found = await find_case(asker, chosen, known, show=show)
    report_hangs(asker.send, found.verdicts, known, unmoved=unmoved)
    return case, found


def report_hangs(
    send: Callable[[Message], None],
    verdicts: Sequence[Verdict],
    known: Sequence[RankInfo] = (),
    *,
    unmoved: bool = False,
) -> None:
    """Send the broker the worst verdict on each job that hangs; for ``unmoved`` see :func:`hangs_in`."""
    for verdict in hangs_in(verdicts, known, unmoved=unmoved):
        send(
            clamp(
                Hang,
                job=verdict.job,
                kind=verdict.kind.value,
                sentence=printable(sentence_of(verdict), 500),
                ranks=format_ranks(verdict.ranks),
            )
        )


async def ask_collectives(
    asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo]
) -> tuple[list[Matched], list[RankAnswer]]:
    """Return the collectives of the chosen ranks' runs, and the answers of the ranks. Errors of the asker propagate."""
    ranks = ranks_of_runs(chosen, known)
    answers = await asker.ask(Action.WHERE, ranks, look=DetailLevel.COLLECTIVES)
    return match_collectives(read_evidence(ranks, answers)), answers


def ranks_of_runs(chosen: Sequence[RankInfo], known: Sequence[RankInfo]) -> list[RankInfo]:
    """Return all ranks of the runs of the chosen ranks, because a hang can't be explained from a part of its ranks.

    For a live run this includes the newest process of each rank that has exited; for an ended run, all processes.
    """
    runs = {(rank.job, rank.run) for rank in chosen}
    live = live_runs(known)
    ended = {rank.key for rank in ended_of_live_runs(known)}
    return [
        rank
        for rank in known
        if (rank.job, rank.run) in runs
        and (rank.state is not RankState.EXITED or (rank.job, rank.run) not in live or rank.key in ended)
    ]


async def _ask_evidence(asker: Asker, ranks: Sequence[RankInfo]) -> list[RankEvidence]:
    return read_evidence(ranks, await asker.ask(Action.WHERE, ranks, look=DetailLevel.EVIDENCE))


def about(found: Explanation, chosen: Sequence[RankInfo], ranks: Sequence[RankInfo]) -> Explanation:
    """Keep only verdicts about the chosen ranks.

    Keep all verdicts if all ranks that have not exited are chosen, or if no verdict would remain.
    """
    keys = {rank.key for rank in chosen}
    if all(rank.key in keys for rank in ranks if rank.state is not RankState.EXITED):
        return found
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for rank in chosen:
        numbers[rank.job].add(rank.rank)
    concerning = [one for one in found.verdicts if _concerns(one, numbers)]
    return replace(found, verdicts=tuple(concerning or found.verdicts))


def _concerns(verdict: Verdict, numbers: Mapping[str, set[int]]) -> bool:
    everybody = {*verdict.ranks, *verdict.others}
    return not everybody or bool(everybody & numbers.get(verdict.job, set()))
