"""When this rank came to its last collectives, by torch's flight recorders, and when these are known to have ended.

To build a dump keeps Python's lock, and so stops the program, for some 40 µs of each entry. A recorder is read once in
a sampling, and only if that is a small part of the sampling's time. Its status, which is short, tells at each look how
many collectives have ended by then.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dbg_agent.torch.calls import MODULE, Group, process_groups
from dbg_agent.torch.collectives import BUFFER_VARIABLES
from dbg_agent.torch.flight_recorder import NATIVE_MODULE, Recorder, recorders_of
from dbg_wire.recorder.entries import recent_entries
from dbg_wire.recorder.seen import LIBRARY, group_seen, key_of, name_of
from dbg_wire.records.evidence import GroupSeen, SourceSeen
from dbg_wire.records.record import fitted
from dbg_wire.records.samples import MAX_ARRIVALS, MAX_LOOKS, GroupArrivals

ENTRY_SECONDS = 40e-6
"""Seconds for which one entry of a dump stops the program, at most."""

USUAL_ENTRIES = 2000
"""Entries that a recorder keeps unless a variable says otherwise."""

READING_SHARE = 0.008
"""The part of a sampling's time that reading the recorders may take."""

LEAST_OF_EACH = 16
"""Arrivals of each group that are told even of a rank with many groups."""

Told = SourceSeen | GroupSeen | GroupArrivals


@dataclass
class Completions:
    """When the recorders' status was seen to tell that so many collectives have ended, by backend and group's id."""

    seen: defaultdict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """The number of the last ended collective and the time of day in microseconds, as often as that has changed."""

    def look(self) -> None:
        """Note what has ended by now; nothing where no recorder has a status."""
        for recorder in recorders():
            if recorder.status is None:
                continue
            status = json.loads(recorder.status()).get("pg_status", {})
            # The time is taken behind the status: the collective had ended before that.
            now = time.time_ns() // 1000
            for group, told in status.items():
                number, noted = int(told["last_completed_collective"]), self.seen[recorder.backend, group]
                if len(noted) < MAX_LOOKS and (not noted or noted[-1][0] != number):
                    noted.append((number, now))

    def ended_by(self, backend: str, group: str, sequence: int) -> int | None:
        """Return the first time at which a collective was known to have ended; None if that was never seen."""
        return next((at for number, at in self.seen.get((backend, group), ()) if number >= sequence), None)


def recorders() -> list[Recorder]:
    """Return torch's recorders; none if the program has not loaded torch."""
    native = sys.modules.get(NATIVE_MODULE)
    return recorders_of(native) if native is not None else []


def arrivals_of(most: int, seconds: float, completions: Completions) -> list[Told]:
    """Return the groups of torch and the rank's arrivals in them, ``most`` at most; ``seconds`` have been sampled.

    A recorder that takes too long for these seconds is not read, which a SourceSeen says.
    """
    module = sys.modules.get(MODULE)
    groups = process_groups(module) if module is not None else []
    if not groups:
        return []
    rows: list[Told] = []
    used = False
    for recorder in recorders():
        needed = _seconds_to_read(recorder)
        if needed > READING_SHARE * seconds:
            rows.append(_too_long(needed))
        elif needed:
            told = _arrivals(recorder, groups, most, completions)
            used = used or bool(told)
            rows += told
    if not used and not rows:
        rows.append(fitted(SourceSeen, library=LIBRARY, lack=_lack()))
    return rows


def _seconds_to_read(recorder: Recorder) -> float:
    """Return for how long to read a recorder stops the program at most; 0 if it has recorded nothing."""
    entries = _buffer_entries()
    if recorder.status is not None:
        status = json.loads(recorder.status()).get("pg_status", {}).values()
        entries = min(entries, sum(max(0, int(told["last_enqueued_collective"])) for told in status))
    return entries * ENTRY_SECONDS


def _buffer_entries() -> int:
    for name in BUFFER_VARIABLES:
        text = os.environ.get(name, "").strip()
        if text.isascii() and text.isdecimal():
            return int(text[:9])
    return USUAL_ENTRIES


def _too_long(needed: float) -> SourceSeen:
    lack = (
        f"to read torch's flight recorder stops the rank for {1000 * needed:.0f} ms, "
        f"which is more than 1 % of the time that was asked for; --for {needed / READING_SHARE:.0f}s reads it"
    )
    return fitted(SourceSeen, library=LIBRARY, lack=lack)


def _lack() -> str:
    if not recorders():
        return "this torch has no flight recorder; the stacks tell how long ranks wait"
    return (
        f"torch's flight recorder has recorded nothing; {BUFFER_VARIABLES[0]}=2000 in the job's environment "
        f"({BUFFER_VARIABLES[1]} before torch 2.9) switches it on"
    )


def _arrivals(recorder: Recorder, groups: Sequence[Group], most: int, completions: Completions) -> list[Told]:
    each = min(MAX_ARRIVALS, max(LEAST_OF_EACH, most // max(1, len(groups))))
    try:
        entries = recent_entries(recorder.dump(), each)
        by_group: defaultdict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
        for raw in entries:
            library = str(raw["profiling_name"]).partition(":")[0]
            # The calls of a batch have one number; the first of them is when the rank came.
            by_group[str(raw["process_group"][0]), library].setdefault(int(raw["collective_seq_id"]), raw)
        rows: list[Told] = []
        for group in groups:
            for (name, library), calls in by_group.items():
                if name == group.name:
                    rows += [
                        group_seen(group.name, library, (), title=group.title, ranks=group.ranks),
                        _told(group, library, calls, recorder, completions),
                    ]
        return rows
    except Exception as error:
        # A newer torch has another form, or the program has changed it.
        lack = f"torch's flight recorder can't be read ({type(error).__name__})"
        return [fitted(SourceSeen, library=LIBRARY, lack=lack)]


def _told(
    group: Group, library: str, calls: dict[int, dict[str, Any]], recorder: Recorder, completions: Completions
) -> GroupArrivals:
    names: dict[str, int] = {}
    which, ended, took = [], [], []
    begin = min(int(raw["time_created_ns"]) for raw in calls.values()) // 1000
    for sequence, raw in calls.items():
        which.append(names.setdefault(name_of(str(raw["profiling_name"]).partition(":")[2])[0], len(names)))
        discovered = int(raw.get("time_discovered_completed_ns") or 0) // 1000
        known = discovered or completions.ended_by(recorder.backend, str(raw.get("pg_id")), sequence)
        ended.append(known - begin if known else -1)
        duration = raw.get("duration_ms")
        took.append(int(1000 * duration) if isinstance(duration, (int, float)) else -1)
    return fitted(
        GroupArrivals,
        group=key_of(group.name, library),
        begin=begin,
        calls=tuple(names),
        which=tuple(which),
        sequences=tuple(calls),
        came=tuple(int(raw["time_created_ns"]) // 1000 - begin for raw in calls.values()),
        ended=tuple(ended) if any(at >= 0 for at in ended) else (),
        took=tuple(took) if any(duration >= 0 for duration in took) else (),
    )
