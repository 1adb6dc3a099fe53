"""What the kernel keeps from a late rank, beside the others: cores, memory, disks, and the speed of its core. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from dbg_client.why.process_groups import Roster
from dbg_wire.errors import printable
from dbg_wire.records.samples import RankSample

LEAST_SHARE = 0.05
"""The part of the time for which a rank lacks something from which on that is told."""

MORE = 2.0
"""How many times as much a late rank lacks as the others to be told, since they would be late by it, too."""

SLOWER = 0.8
"""The part of the others' frequency below which a core is slow."""

FAULTS_A_SECOND = 10.0
"""Pages that are read from disk in a second, from which on that is told: a spinning disk reads a hundred."""

BUSIER = 0.2
"""The part of the time for which a late rank's main thread computes longer than the others'."""

MAX_NAME = 40


def lacks_of(number: int, samples: Mapping[int, RankSample], roster: Roster) -> list[str]:
    """Return a line for each thing that a rank lacks and the others have, the surest first."""
    mine = samples.get(number)
    if mine is None or mine.seconds <= 0:
        return []
    others = [sample for other, sample in samples.items() if other != number and sample.seconds > 0]
    lines = [_throttled(mine), _still(mine, others), _queued(mine, others, number, roster)]
    lines += [_faults(mine, others), _disk(mine, others), _slow_core(mine, others), _heated(mine)]
    found = [line for line in lines if line]
    return found or [line for line in [_busy(mine, others)] if line]


def _throttled(mine: RankSample) -> str:
    used = mine.processors
    # The others may be in the same group, and yet need less.
    if not used.periods or not used.throttled or used.throttled < LEAST_SHARE * used.periods:
        return ""
    quota = f" ({used.quota:.2g} cores)" if used.quota is not None else ""
    return f"its cgroup throttles it: the quota{quota} was used up in {used.throttled} of {used.periods} periods"


def _still(mine: RankSample, others: Sequence[RankSample]) -> str:
    if not _stands_out(mine, others, lambda one: one.still):
        return ""
    return (
        f"nothing of it ran for {mine.still:.1f} of {mine.seconds:.0f} s: "
        "its processes were stopped, or its machine was suspended"
    )


def _queued(mine: RankSample, others: Sequence[RankSample], number: int, roster: Roster) -> str:
    if mine.processors.throttled or not _stands_out(mine, others, lambda one: one.processors.queued):
        return ""
    share = (mine.processors.queued or 0.0) / mine.seconds
    return f"it waits for a free core in {share:.0%} of the time{_neighbours(mine, number, roster)}"


def _neighbours(mine: RankSample, number: int, roster: Roster) -> str:
    host = roster[number].rank.host if number in roster else ""
    by_pid = {one.rank.pid: other for other, one in roster.items() if one.rank.host == host}
    named = [
        f"{_named(one.pid, one.name, by_pid)} uses {one.cores:.0%} of one"
        for one in mine.neighbours
        if by_pid.get(one.pid) != number
    ]
    return f"; on its cores, {', '.join(named)}" if named else ""


def _named(pid: int, name: str, ranks: Mapping[int, int]) -> str:
    return f"rank {ranks[pid]}" if pid in ranks else f"process {pid} ({printable(name, MAX_NAME)})"


def _faults(mine: RankSample, others: Sequence[RankSample]) -> str:
    least = FAULTS_A_SECOND / LEAST_SHARE
    if not _stands_out(mine, others, lambda one: one.disks.faults / least if one.disks.faults is not None else None):
        return ""
    swapped = f", and {mine.disks.swapped / 2**20:.0f} MiB of it are in swap" if mine.disks.swapped else ""
    return f"the kernel had to read {mine.disks.faults} of its pages from disk{swapped}"


def _disk(mine: RankSample, others: Sequence[RankSample]) -> str:
    if _stands_out(mine, others, lambda one: one.disks.waits):
        return f"its main thread waits for a disk in {(mine.disks.waits or 0.0) / mine.seconds:.0%} of the time"
    if _stands_out(mine, others, lambda one: one.disks.pressure):
        share = (mine.disks.pressure or 0.0) / mine.seconds
        return f"processes of its cgroup or host wait for disks in {share:.0%} of the time"
    return ""


def _slow_core(mine: RankSample, others: Sequence[RankSample]) -> str:
    told = [one.core.frequency for one in others if one.core.frequency]
    usual = statistics.median(told) if told else mine.core.fastest
    if not mine.core.frequency or not usual or mine.core.frequency >= SLOWER * usual:
        return ""
    whose = "those of others" if told else "at best"
    return f"its core runs at {mine.core.frequency / 1e9:.1f} GHz, {whose} {'at ' if told else ''}{usual / 1e9:.1f}"


def _heated(mine: RankSample) -> str:
    return f"heat has slowed its core down {mine.core.heated} times" if mine.core.heated else ""


def _busy(mine: RankSample, others: Sequence[RankSample]) -> str:
    """Say that a rank computes where others wait: it has more to do, or does it more slowly."""
    usual = _median(others, lambda one: one.processors.main)
    if mine.processors.main is None or usual is None:
        return ""
    share = mine.processors.main / mine.seconds
    if share - usual < BUSIER:
        return ""
    return f"its main thread computes in {share:.0%} of the time, those of others in {usual:.0%}"


def _stands_out(mine: RankSample, others: Sequence[RankSample], amount: Callable[[RankSample], float | None]) -> bool:
    """Tell whether a rank lacks something for a good part of the time, and clearly longer than the others."""
    own = amount(mine)
    if own is None or own < LEAST_SHARE * mine.seconds:
        return False
    usual = _median(others, amount)
    return usual is None or own / mine.seconds >= MORE * usual


def _median(others: Sequence[RankSample], amount: Callable[[RankSample], float | None]) -> float | None:
    """Return the usual part of the time of the others; None if the kernel tells none of it."""
    told = [value / one.seconds for one in others if (value := amount(one)) is not None]
    return statistics.median(told) if told else None
