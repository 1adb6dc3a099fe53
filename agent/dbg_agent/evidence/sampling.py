"""Sampler of this rank: records the place of the main thread from time to time while a sampling question is open.

The sampler runs in the link's thread. After a slow sample it makes a longer pause, because the program may not run
during a sample. torch's flight recorders have the times when the rank reached its most recent collectives. torch holds
the GIL for some 40 µs per entry while it builds a dump of a recorder. So a recorder is read once, and only if the dump
takes a small part of the sampling time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dbg_agent.frames.stacks import is_own, is_users_file, outward, thread_frame
from dbg_agent.host.process import Kernel, Reading, processors
from dbg_agent.torch.calls import MODULE, Group, process_groups
from dbg_agent.torch.collectives import BUFFER_VARIABLES
from dbg_agent.torch.flight_recorder import NATIVE_MODULE, Recorder, recorders_of
from dbg_wire.messages import Ask, Kind
from dbg_wire.recorder.entries import recent_entries
from dbg_wire.recorder.seen import LIBRARY, group_seen, key_of, name_of
from dbg_wire.records.evidence import GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp
from dbg_wire.records.samples import (
    MAX_ARRIVALS,
    MAX_FRAMES,
    MAX_PLACES,
    MAX_SNAPSHOTS,
    GroupArrivals,
    RankSample,
    Sampled,
    SampledPlace,
    SampleQuestion,
    sample_rows,
)

ENTRY_SECONDS = 40e-6
"""Maximum time, in seconds, that the program stands still for one entry of a recorder's dump."""

USUAL_ENTRIES = 2000
"""Number of entries that a recorder keeps unless an environment variable sets another number."""

READING_SHARE = 0.008
"""Maximum share of the sampling time that reading the recorders may take."""

LEAST_OF_EACH = 16
"""Minimum number of arrivals of each group that are reported, even if a rank has many groups."""

ArrivalRow = SourceSeen | GroupSeen | GroupArrivals


def recorders() -> list[Recorder]:
    """Return torch's recorders; empty if the program has not loaded torch."""
    native = sys.modules.get(NATIVE_MODULE)
    return recorders_of(native) if native is not None else []


def arrivals_of(most: int, seconds: float) -> list[ArrivalRow]:
    """Return torch's groups and at most ``most`` of the rank's arrivals in them; ``seconds`` is the sampling time.

    A recorder that would take too long is not read, and a SourceSeen reports this.
    """
    module = sys.modules.get(MODULE)
    groups = process_groups(module) if module is not None else []
    if not groups:
        return []
    rows: list[ArrivalRow] = []
    used = False
    for recorder in recorders():
        needed = _seconds_to_read(recorder)
        if needed > READING_SHARE * seconds:
            rows.append(_too_long(needed))
        elif needed:
            arrivals = _arrivals(recorder, groups, most)
            used = used or bool(arrivals)
            rows += arrivals
    if not used and not rows:
        rows.append(clamp(SourceSeen, library=LIBRARY, limitation=_lack()))
    return rows


def _seconds_to_read(recorder: Recorder) -> float:
    """Return the maximum time that reading a recorder stops the program; 0 if it has recorded nothing."""
    entries = _buffer_entries()
    if recorder.status is not None:
        status = json.loads(recorder.status()).get("pg_status", {}).values()
        entries = min(entries, sum(max(0, int(arrivals["last_enqueued_collective"])) for arrivals in status))
    return entries * ENTRY_SECONDS


def _buffer_entries() -> int:
    for name in BUFFER_VARIABLES:
        text = os.environ.get(name, "").strip()
        if text.isascii() and text.isdecimal():
            return int(text[:9])
    return USUAL_ENTRIES


def _too_long(needed: float) -> SourceSeen:
    limitation = (
        f"reading torch's flight recorder would stop the rank for {1000 * needed:.0f} ms, "
        f"more than 1 % of the sampling time; use --for {needed / READING_SHARE:.0f}s"
    )
    return clamp(SourceSeen, library=LIBRARY, limitation=limitation)


def _lack() -> str:
    if not recorders():
        return "this torch has no flight recorder"
    return (
        f"torch's flight recorder has recorded nothing; {BUFFER_VARIABLES[0]}=2000 in the job's environment "
        f"({BUFFER_VARIABLES[1]} before torch 2.9) switches it on"
    )


def _arrivals(recorder: Recorder, groups: Sequence[Group], most: int) -> list[ArrivalRow]:
    each = min(MAX_ARRIVALS, max(LEAST_OF_EACH, most // max(1, len(groups))))
    try:
        entries = recent_entries(recorder.dump(), each)
        by_group: defaultdict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
        for raw in entries:
            library = str(raw["profiling_name"]).partition(":")[0]
            # All calls of a batch have the same number; the first call shows when the rank arrived.
            by_group[str(raw["process_group"][0]), library].setdefault(int(raw["collective_seq_id"]), raw)
        rows: list[ArrivalRow] = []
        for group in groups:
            for (name, library), calls in by_group.items():
                if name == group.name:
                    rows += [
                        group_seen(group.name, library, (), title=group.title, ranks=group.ranks),
                        _arrivals_of(group, library, calls),
                    ]
        return rows
    except Exception as error:
        # A newer torch may have a different format, or the program has changed it.
        limitation = f"torch's flight recorder can't be read ({type(error).__name__})"
        return [clamp(SourceSeen, library=LIBRARY, limitation=limitation)]


def _arrivals_of(group: Group, library: str, calls: dict[int, dict[str, Any]]) -> GroupArrivals:
    names: dict[str, int] = {}
    which, took = [], []
    start = min(int(raw["time_created_ns"]) for raw in calls.values()) // 1000
    for raw in calls.values():
        which.append(names.setdefault(name_of(str(raw["profiling_name"]).partition(":")[2])[0], len(names)))
        duration = raw.get("duration_ms")
        took.append(int(1000 * duration) if isinstance(duration, (int, float)) else -1)
    return clamp(
        GroupArrivals,
        group=key_of(group.name, library),
        start=start,
        calls=tuple(names),
        which=tuple(which),
        sequences=tuple(calls),
        came=tuple(int(raw["time_created_ns"]) // 1000 - start for raw in calls.values()),
        took=tuple(took) if any(duration >= 0 for duration in took) else (),
    )


Step = tuple[str, int, str]
Seen = tuple[Step, ...]


class Places:
    """The places of the main thread in the samples of one question; equal places are stored once."""

    def __init__(self) -> None:
        self._known: dict[Seen, Seen] = {}

    def look(self) -> Seen:
        """Return at most MAX_FRAMES frames from the inner end of the main thread's stack.

        Inner frames come after their callers. If the stack has frames of the user's code, the result has at least one
        of them. The result has no frame objects, because they would keep the program's tensors alive.
        """
        innermost = thread_frame(threading.main_thread().ident)
        frames = list(islice((one for one in outward(innermost) if not is_own(one)), MAX_FRAMES))
        if not any(is_users_file(one.f_code.co_filename) for one in frames):
            users = (one for one in outward(innermost) if is_users_file(one.f_code.co_filename) and not is_own(one))
            frames[MAX_FRAMES - 1 :] = islice(users, 1)
        steps = tuple((f.f_code.co_filename, f.f_lineno or 0, f.f_code.co_name) for f in reversed(frames))
        # Equal places are stored once, because a rank is seen at few places, and often at the same one.
        return self._known.setdefault(steps, steps)


def sampled_places(samples: Sequence[tuple[int, Seen]], start: int) -> list[SampledPlace]:
    """Group the samples by place; the most frequent places come first.

    A sample is a time in microseconds and a place. If there are many places, rare ones are shortened to the user's own
    line. Places beyond MAX_PLACES become one place without frames.
    """
    kept = {seen for seen, _ in Counter(seen for _, seen in samples).most_common(MAX_PLACES // 2)}
    shown = [(at, seen if seen in kept else _of_user(seen)) for at, seen in samples]
    kept = {seen for seen, _ in Counter(seen for _, seen in shown).most_common(MAX_PLACES - 1)}
    times: dict[Seen | None, list[int]] = {}
    for at, seen in shown:
        times.setdefault(seen if seen in kept else None, []).append(max(0, at - start))
    rows = [_row(seen, tuple(when)) for seen, when in times.items()]
    return sorted(rows, key=lambda row: -len(row.times))


def _of_user(steps: Seen) -> Seen:
    """Return the frames from the outermost one to the user's innermost one; all frames if the user's code has none."""
    last = max((number for number, step in enumerate(steps, 1) if is_users_file(step[0])), default=len(steps))
    return steps[:last]


def _row(steps: Seen | None, times: tuple[int, ...]) -> SampledPlace:
    frames = tuple(clamp(Place, file=file, line=line, function=name) for file, line, name in steps or ())
    return clamp(SampledPlace, frames=frames, times=times)


Answer = Callable[..., None]
"""Sends the answer to a question."""

BETWEEN_SECONDS = 0.1
"""Average time between two samples, in seconds: a hundred samples in ten seconds give shares to within a tenth."""

LOOK_SHARE = 0.004
"""Maximum share of the time that samples take, because the program may not run during a sample."""

GOLDEN = 0.6180339887
"""Golden ratio, which varies the pauses between samples: evenly spaced samples could always hit the same place of a
training step."""

MOST_OPEN = 8
"""Maximum number of open questions: each makes its own samples and reads the recorders."""


@dataclass(eq=False)
class _Open:
    """One open question with its samples; ``start`` is its start in microseconds since the epoch."""

    ask: Ask
    question: SampleQuestion
    answer: Answer
    start: int
    before: Reading
    places: Places = field(default_factory=Places)
    samples: deque[tuple[int, Seen]] = field(default_factory=lambda: deque(maxlen=MAX_SNAPSHOTS))
    count: int = 0


class Sampler:
    """Sampler for the open questions of one rank; ``call_later`` schedules a call in the link's thread."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._call_later = call_later
        self._kernel = Kernel()
        self._open: list[_Open] = []

    def start(self, ask: Ask, question: SampleQuestion, answer: Answer) -> None:
        """Sample for the duration that the question requests, then send the answer."""
        if len(self._open) >= MOST_OPEN:
            answer(ask, Kind.ERROR, f"{MOST_OPEN} sampling requests are open already; try again later")
            return
        one = _Open(ask, question, answer, time.time_ns() // 1000, self._kernel.read())
        self._open.append(one)
        self._sample(one)
        self._call_later(min(question.seconds, ask.seconds), lambda: self._finish(one))

    def _sample(self, one: _Open) -> None:
        """Make one sample and schedule the next one, unless the question is finished."""
        if one not in self._open:
            return
        began = time.thread_time()
        one.samples.append((time.time_ns() // 1000, one.places.look()))
        one.count += 1
        pause = max(BETWEEN_SECONDS, one.question.seconds / MAX_SNAPSHOTS, (time.thread_time() - began) / LOOK_SHARE)
        self._call_later(pause * (0.5 + one.count * GOLDEN % 1.0), lambda: self._sample(one))

    def _finish(self, one: _Open) -> None:
        self._open.remove(one)
        try:
            rows = sample_rows(self._sampled(one))
        except Exception as error:
            one.answer(one.ask, Kind.ERROR, f"sampling failed ({type(error).__name__})")
        else:
            one.answer(one.ask, Kind.VALUE, "", rows=rows)

    def _sampled(self, one: _Open) -> Sampled:
        after = self._kernel.read()
        arrivals = arrivals_of(one.question.arrivals, one.question.seconds)
        return Sampled(
            sample=clamp(
                RankSample,
                clock=time.time_ns() // 1000,
                start=one.start,
                samples=len(one.samples),
                seconds=after.at - one.before.at,
                processors=processors(one.before, after, self._kernel.quota()),
            ),
            sources=tuple(row for row in arrivals if isinstance(row, SourceSeen)),
            groups=tuple(row for row in arrivals if isinstance(row, GroupSeen)),
            arrivals=tuple(row for row in arrivals if isinstance(row, GroupArrivals)),
            places=tuple(sampled_places(tuple(one.samples), one.start)),
        )
