"""Result of sampling a rank for some seconds: arrivals at collectives, places of the main thread, processor shortage.

The rows of the answer are the process groups (:mod:`dbg_wire.records.evidence`), the arrivals in each group, the
sampled places of the main thread, and one row of amounts. Times are microseconds of the host's clock.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from dbg_wire.limits import KIB, MAX_ANSWER_BYTES
from dbg_wire.records.evidence import Amount, GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import (
    MAX_AGE,
    Age,
    Count,
    Inquiry,
    Record,
    Row,
    Sentence,
    elements,
    integers,
    reals,
    rows_by_kind,
    within_bytes,
)

MAX_SAMPLE_SECONDS = 300.0
"""Maximum duration of one sampling, in seconds. A longer one would show nothing new, because a slow job is slow all the
time."""

MAX_ARRIVALS = 256
"""Maximum number of arrivals that a rank reports for one group; the newest are kept."""

MAX_ALL_ARRIVALS = 512
"""Maximum number of arrivals of a rank in all its groups: some 10 KiB of an answer."""

MAX_SNAPSHOTS = 200
"""Maximum number of samples that a rank takes of itself in one sampling."""

MAX_PLACES = 32
"""Maximum number of places of the main thread in one answer. If there are more, one place without frames represents the
rarest ones."""

MAX_FRAMES = 8
"""Maximum number of frames of one place; the innermost frames are kept."""

MAX_SAMPLE_BYTES = MAX_ANSWER_BYTES - 8 * KIB

Arrivals = Annotated[tuple[Annotated[int, integers()], ...], elements(MAX_ARRIVALS)]


class SampleQuestion(Inquiry, tag="sample"):
    """Parameters of a ``sample``: its duration and the maximum number of arrivals. 0 seconds request only the clock."""

    seconds: Annotated[float, reals(0.0, MAX_SAMPLE_SECONDS)]
    arrivals: Annotated[int, integers(0, MAX_ALL_ARRIVALS)] = MAX_ALL_ARRIVALS


class GroupArrivals(Row, tag="arrivals"):
    """Times at which the rank called the most recent collectives of one group, oldest first.

    Sends and receives are left out. ``group`` is the name of a GroupSeen. ``calls`` are the different names of the
    collectives; ``which`` is the index into ``calls`` for each collective. ``sequences`` are the numbers that the
    library has given to them. ``came`` are the times of the calls, relative to ``start``. ``took`` are the durations on
    the device in microseconds, negative if unknown; the column is empty if all of them are unknown.
    """

    group: Sentence
    start: Count
    calls: Annotated[tuple[Sentence, ...], elements(MAX_ARRIVALS)]
    which: Arrivals
    sequences: Arrivals
    came: Arrivals
    took: Arrivals = ()

    @property
    def is_whole(self) -> bool:
        """Whether the columns have the same length and ``which`` contains valid indexes."""
        columns = (self.which, self.sequences, self.took or self.came)
        calls = range(len(self.calls))
        return all(len(one) == len(self.came) for one in columns) and all(call in calls for call in self.which)


class SampledPlace(Row, tag="place"):
    """A place where the main thread was sampled: its innermost ``frames``, outermost first.

    ``times`` are microseconds from the start of the sampling. A place without frames represents all omitted places.
    """

    frames: Annotated[tuple[Place, ...], elements(MAX_FRAMES)]
    times: Annotated[tuple[Count, ...], elements(MAX_SNAPSHOTS)]


class ProcessorUse(Record):
    """Shortage of processors: waits for a core, and the quota. A field is None if the kernel does not report it.

    ``queued`` is the time in seconds that the main thread waited for a core. ``periods`` counts the quota periods of
    the control group that have elapsed, ``throttled`` those in which the quota was used up. ``quota`` is in cores.
    """

    queued: Amount | None = None
    periods: Count | None = None
    throttled: Count | None = None
    quota: Annotated[float, reals(0.0, MAX_AGE)] | None = None


class RankSample(Row, tag="sampled"):
    """Amounts of a sampling that started at ``start`` and took ``seconds``; ``clock`` is the time of day at the end."""

    clock: Count
    start: Count = 0
    seconds: Age = 0.0
    samples: Annotated[int, integers(0, MAX_SNAPSHOTS)] = 0
    processors: ProcessorUse = ProcessorUse()


SampleRecord = SourceSeen | GroupSeen | GroupArrivals | SampledPlace | RankSample


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Complete result of one rank's sampling."""

    sample: RankSample
    sources: tuple[SourceSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    arrivals: tuple[GroupArrivals, ...] = ()
    places: tuple[SampledPlace, ...] = ()


def sampled_in(rows: Iterable[object]) -> Sampled | None:
    """Return the sampling in the rows of an answer, or None.

    Arrivals with columns of different lengths or invalid indexes are omitted.
    """
    found = rows_by_kind(rows, SampleRecord)
    if not found[RankSample]:
        return None
    return Sampled(
        sample=found[RankSample][0],
        sources=found[SourceSeen],
        groups=found[GroupSeen],
        arrivals=tuple(row for row in found[GroupArrivals] if row.is_whole),
        places=found[SampledPlace],
    )


def sample_rows(sampled: Sampled) -> tuple[SampleRecord, ...]:
    """Return the rows of an answer. Rows beyond the maximum size are omitted, except the row of amounts."""
    rest: Iterable[SampleRecord] = itertools.chain(sampled.sources, sampled.groups, sampled.arrivals, sampled.places)
    kept, left_out = within_bytes(rest, MAX_SAMPLE_BYTES)
    if left_out:
        limitation = f"{left_out} of its records do not fit into an answer and are omitted"
        kept.append(SourceSeen(library="dbg-agent", limitation=limitation))
    return (sampled.sample, *kept)
