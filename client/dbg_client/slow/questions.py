"""Queries that make the ranks of jobs sample themselves for some seconds, to find the late ranks."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Sequence

from dbg_client.core.asking import Asker
from dbg_client.slow.collective_timings import RoundTrip, sampled_runs
from dbg_client.slow.explain import RunFindings, find
from dbg_client.why.questions import ranks_of_runs
from dbg_wire.errors import BadInput
from dbg_wire.messages import Action, Kind
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.samples import MAX_ALL_ARRIVALS, MAX_SAMPLE_SECONDS, SampleQuestion, sampled_in

ARRIVALS_OF_ALL = 512_000
"""Maximum arrivals that all ranks report together, about 10 MB. With very many ranks each reports fewer."""

LEAST_ARRIVALS = 64

TRIPS = 4
"""Number of queries of each host's clock. The fastest one gives the tightest bounds."""

TRIPS_AT_ONCE = 8
"""Maximum concurrent queries of clocks. More would wait for one another, and a slow query gives wider bounds."""

MAX_HOSTS = 512
"""Maximum number of hosts whose clocks are queried."""

TRIP_SECONDS = 2.0
"""Timeout in seconds of a clock query. A slower answer gives no useful bounds."""


async def find_stragglers(
    asker: Asker, chosen: Sequence[RankInfo], known: Sequence[RankInfo], seconds: float
) -> tuple[RunFindings, ...]:
    """Make all ranks of the chosen ranks' runs sample themselves for ``seconds``, and return the findings.

    Raises BadInput if ``seconds`` is not positive or too long, and DbgError if the broker fails.
    """
    if not 0 < seconds <= MAX_SAMPLE_SECONDS:
        raise BadInput(f"ranks can't sample for {seconds:g} s", f"use at most {MAX_SAMPLE_SECONDS:g}")
    ranks = [rank for rank in ranks_of_runs(chosen, known) if rank.state is not RankState.EXITED]
    time_left = asker.seconds
    try:
        asker.seconds = min(time_left, TRIP_SECONDS)
        trips = await _round_trips(asker, ranks)
        asker.seconds = seconds + time_left
        question = SampleQuestion(
            seconds=seconds,
            arrivals=max(LEAST_ARRIVALS, min(MAX_ALL_ARRIVALS, ARRIVALS_OF_ALL // max(1, len(ranks)))),
        )
        answers = await asker.ask(Action.SAMPLE, ranks, inquiry=question)
    finally:
        asker.seconds = time_left
    # With thousands of ranks this call takes seconds, and keys typed in a session must not wait for it.
    return await asyncio.to_thread(lambda: tuple(map(find, sampled_runs(ranks, answers, trips))))


async def _round_trips(asker: Asker, ranks: Sequence[RankInfo]) -> dict[str, list[RoundTrip]]:
    """Query the clock of one rank per host, TRIPS times each. Without a second host, return no round trips."""
    chosen: dict[str, RankInfo] = {}
    for rank in ranks:
        if rank.state is RankState.RUNNING and rank.child is None and not rank.is_classic:
            chosen.setdefault(rank.host, rank)
    trips: defaultdict[str, list[RoundTrip]] = defaultdict(list)
    if len(chosen) < 2:
        return trips
    listed = list(chosen.items())[:MAX_HOSTS]
    for start in [*range(0, len(listed), TRIPS_AT_ONCE)] * TRIPS:
        some = listed[start : start + TRIPS_AT_ONCE]
        samples = await asyncio.gather(*(_round_trip(asker, rank) for _, rank in some))
        for (host, _), trip in zip(some, samples, strict=True):
            if trip is not None:
                trips[host].append(trip)
    return trips


async def _round_trip(asker: Asker, rank: RankInfo) -> RoundTrip | None:
    # Each question must differ, because the broker answers a repeated question of a watcher from its cache.
    question = SampleQuestion(seconds=0.0, arrivals=secrets.randbelow(MAX_ALL_ARRIVALS + 1))
    asked = time.time_ns() // 1000
    (answer,) = await asker.ask(Action.SAMPLE, [rank], inquiry=question)
    answered = time.time_ns() // 1000
    sampled = sampled_in(answer.rows) if answer.kind is Kind.VALUE else None
    return RoundTrip(asked, answered, sampled.sample.clock) if sampled is not None and answered >= asked else None
