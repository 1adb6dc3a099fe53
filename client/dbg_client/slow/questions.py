"""Have the ranks of jobs sample themselves for some seconds, and return who slows them down."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from dbg_client.core.asking import Asker
from dbg_client.slow.explain import RunFindings, find
from dbg_client.slow.meetings import RoundTrip, sampled_runs
from dbg_client.why.questions import ranks_of_runs
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.samples import MAX_ALL_ARRIVALS, MAX_SAMPLE_SECONDS, SampleQuestion, sampled_in

ARRIVALS_OF_ALL = 512_000
"""Arrivals that all ranks tell together, some 10 MB; of very many ranks each tells fewer."""

LEAST_ARRIVALS = 64

TRIPS = 4
"""Questions to each host for its clock, of which the fastest bounds it best."""

TRIPS_AT_ONCE = 8
"""Such questions at once: more would wait for one another, and a question that waits tells less."""

MAX_HOSTS = 512
"""Hosts that are asked for their clocks."""

TRIP_SECONDS = 2.0
"""Seconds after which a rank's answer bounds no clock that is worth it."""


async def find_stragglers(
    asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo], seconds: float
) -> tuple[RunFindings, ...]:
    """Have all ranks of the runs of the chosen ones sample themselves for so many seconds, and return what that tells.

    Raises BadInput for a time that is too long or none, and DbgError if the broker fails.
    """
    if not 0 < seconds <= MAX_SAMPLE_SECONDS:
        raise BadInput(f"ranks can't look for {seconds:g} s", f"give up to {MAX_SAMPLE_SECONDS:g}")
    ranks = [rank for rank in ranks_of_runs(chosen, known) if rank.state is not RankState.EXITED]
    patience = asker.seconds
    try:
        asker.seconds = min(patience, TRIP_SECONDS)
        trips = await _round_trips(asker, ranks)
        asker.seconds = seconds + patience
        question = SampleQuestion(
            seconds=seconds,
            arrivals=max(LEAST_ARRIVALS, min(MAX_ALL_ARRIVALS, ARRIVALS_OF_ALL // max(1, len(ranks)))),
        )
        answers = await asker.ask(Action.SAMPLE, ranks, inquiry=question)
    finally:
        asker.seconds = patience
    # For thousands of ranks it takes seconds, in which a session's keys go on.
    return await asyncio.to_thread(_found, ranks, answers, trips)


def _found(
    ranks: Sequence[RankInfo], answers: Sequence[RankAnswer], trips: Mapping[str, Sequence[RoundTrip]]
) -> tuple[RunFindings, ...]:
    return tuple(map(find, sampled_runs(ranks, answers, trips)))


async def _round_trips(asker: Asker, ranks: Sequence[RankInfo]) -> dict[str, list[RoundTrip]]:
    """Ask one rank of each host for the time there, several times; nobody if all are on one host."""
    chosen: dict[str, RankInfo] = {}
    for rank in ranks:
        if rank.state is RankState.RUNNING and rank.child is None and not rank.is_classic:
            chosen.setdefault(rank.host, rank)
    trips: defaultdict[str, list[RoundTrip]] = defaultdict(list)
    if len(chosen) < 2:
        return trips
    listed = list(chosen.items())[:MAX_HOSTS]
    for begin in [*range(0, len(listed), TRIPS_AT_ONCE)] * TRIPS:
        some = listed[begin : begin + TRIPS_AT_ONCE]
        told = await asyncio.gather(*(_round_trip(asker, rank) for _, rank in some))
        for (host, _), trip in zip(some, told, strict=True):
            if trip is not None:
                trips[host].append(trip)
    return trips


async def _round_trip(asker: Asker, rank: RankInfo) -> RoundTrip | None:
    # The broker answers the same question of a watcher by what the rank has said a moment ago: each is another one.
    question = SampleQuestion(seconds=0.0, arrivals=secrets.randbelow(MAX_ALL_ARRIVALS + 1))
    asked = time.time_ns() // 1000
    (answer,) = await asker.ask(Action.SAMPLE, [rank], inquiry=question)
    answered = time.time_ns() // 1000
    sampled = sampled_in(answer.rows) if answer.kind is Kind.VALUE else None
    return RoundTrip(asked, answered, sampled.sample.clock) if sampled is not None and answered >= asked else None
