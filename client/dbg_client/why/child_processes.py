"""Where the child processes are for which ranks wait: the guards of these ranks read their Python stacks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from dbg_client.core.asking import Asker
from dbg_client.views.tree import own_frames
from dbg_client.why.condition import main_wait
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.verdict import Verdict, VerdictKind
from dbg_wire.errors import DbgError
from dbg_wire.messages import Action
from dbg_wire.records.beside import ChildProcess
from dbg_wire.records.evidence import Doing, OtherProcess, What
from dbg_wire.records.ranks import LIVE_STATES, Place
from dbg_wire.records.record import fitted

MAX_CHILDREN = 2
"""Processes that are asked for at once: a sentence names one, and the others most likely wait for the same."""

FINALIZER = "_finalize_join"
"""The function in which multiprocessing waits for the thread that writes a queue's items into its pipe."""

CHILD_SECONDS = 2.0
"""Seconds that this may take; without an answer the kernel's word on the process stands alone."""


async def with_children(
    asker: Asker, verdicts: Sequence[Verdict], everybody: Sequence[RankEvidence]
) -> list[RankEvidence]:
    """Return what ranks told, with the place in Python of the processes that ranks named in a verdict wait for."""
    named = {
        (verdict.job, number)
        for verdict in verdicts
        if verdict.kind is not VerdictKind.BUSY
        for number in verdict.ranks
    }
    ranks = {(one.rank.host, one.rank.pid) for one in everybody}
    found: list[tuple[int, OtherProcess]] = []
    for at, one in enumerate(everybody):
        child = _awaited(one) if (one.rank.job, one.rank.rank) in named and len(found) < MAX_CHILDREN else None
        if child is not None and (one.rank.host, child.pid) not in ranks:
            found.append((at, child))
    places = await asyncio.gather(*(_ask(asker, everybody[at], child) for at, child in found))
    told = list(everybody)
    for (at, child), place in zip(found, places, strict=True):
        if place is not None:
            told[at] = _with_place(told[at], child, place)
    return told


def _awaited(one: RankEvidence) -> OtherProcess | None:
    """Return the process for which a rank's main thread waits; None if there is none, or the rank can't be asked."""
    wait = main_wait(one)
    if one.evidence is None or wait is None or wait.holder is None or one.rank.state not in LIVE_STATES:
        return None
    return next((other for other in one.evidence.others if other.pid == wait.holder), None)


async def _ask(asker: Asker, one: RankEvidence, child: OtherProcess) -> Place | str | None:
    """Return the innermost place of a process in code of the user; None if nobody may or can read it.

    FINALIZER stands for the end of a process that has put something into a queue.
    """
    try:
        inquiry = fitted(ChildProcess, pid=child.pid)
        (answer,) = await asker.ask(Action.NATIVE, [one.rank], inquiry=inquiry, seconds=CHILD_SECONDS)
    except DbgError:
        # A terminal that only looks may not ask this, and the verdict stands without it.
        return None
    if any(place.function.rpartition(".")[2] == FINALIZER for place in answer.frames):
        return FINALIZER
    own = [place for place in own_frames(answer.frames) if not place.file.startswith("<")]
    return own[-1] if own else None


def _with_place(one: RankEvidence, child: OtherProcess, place: Place | str) -> RankEvidence:
    """Return what a rank told, with the place of a process in Python."""
    if one.evidence is None:
        return one
    told = child.replace(place=place) if isinstance(place, Place) else child.replace(does=Doing(what=What.UNREAD_QUEUE))
    others = tuple(told if other is child else other for other in one.evidence.others)
    return replace(one, evidence=replace(one.evidence, others=others))
