"""What a rank tells of some seconds in which it was sampled: when it came to collectives, where it was, what it lacked.

The rows of the answer are the process groups (:mod:`dbg_wire.records.evidence`), the arrivals in each, the places at
which the main thread was seen, and one row of amounts. Times are microseconds of the host's clock.
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
"""Seconds that one sampling takes at most: a job that is slow is slow in each of its minutes."""

MAX_ARRIVALS = 256
"""Arrivals in one group that a rank tells of, the newest ones."""

MAX_ALL_ARRIVALS = 512
"""Arrivals of a rank in all its groups: some 10 KiB of an answer."""

MAX_LOOKS = 200
"""Looks at a rank in one sampling."""

MAX_PLACES = 32
"""Different places of the main thread that one answer tells; those that were seen least often are one of them."""

MAX_FRAMES = 8
"""Frames of one place, the innermost ones."""

MAX_SAMPLE_BYTES = MAX_ANSWER_BYTES - 8 * KIB

Arrivals = Annotated[tuple[Annotated[int, integers()], ...], elements(MAX_ARRIVALS)]


class SampleQuestion(Inquiry, tag="sample"):
    """What a ``sample`` asks: for how many seconds, and how many arrivals at most; 0 seconds ask for a clock alone."""

    seconds: Annotated[float, reals(0.0, MAX_SAMPLE_SECONDS)]
    arrivals: Annotated[int, integers(0, MAX_ALL_ARRIVALS)] = MAX_ALL_ARRIVALS


class GroupArrivals(Row, tag="arrivals"):
    """When the rank has called the last collectives of one group, the oldest first; sends and receives are left out.

    ``group`` is the name of a GroupSeen, ``calls`` the names of the collectives, and ``which`` the number of
    each one's call among them. ``sequences`` are the library's numbers, ``came`` the times
    of the calls after ``begin``. ``took`` are microseconds between begin and end on the device, below zero if unknown;
    it is empty if nothing of it is known.
    """

    group: Sentence
    begin: Count
    calls: Annotated[tuple[Sentence, ...], elements(MAX_ARRIVALS)]
    which: Arrivals
    sequences: Arrivals
    came: Arrivals
    took: Arrivals = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether the columns belong together."""
        columns = (self.which, self.sequences, self.took or self.came)
        calls = range(len(self.calls))
        return all(len(one) == len(self.came) for one in columns) and all(call in calls for call in self.which)


class SampledPlace(Row, tag="place"):
    """One place at which the main thread was seen, with its innermost ``frames``, the outermost first.

    ``times`` are microseconds after the sampling began. A place without frames stands for those that are left out.
    """

    frames: Annotated[tuple[Place, ...], elements(MAX_FRAMES)]
    times: Annotated[tuple[Count, ...], elements(MAX_LOOKS)]


class ProcessorUse(Record):
    """What the rank got of processors: seconds, None where the kernel does not tell.

    ``queued`` is for how long the main thread could have run and had no core. ``periods`` of the control group's quota
    have passed, in ``throttled`` of them it was used up, and ``quota`` is in cores.
    """

    queued: Amount | None = None
    periods: Count | None = None
    throttled: Count | None = None
    quota: Annotated[float, reals(0.0, MAX_AGE)] | None = None


class RankSample(Row, tag="sampled"):
    """How the rank has fared from ``begin`` on, for ``seconds``; ``clock`` is the time of day at the end."""

    clock: Count
    begin: Count = 0
    seconds: Age = 0.0
    looks: Annotated[int, integers(0, MAX_LOOKS)] = 0
    processors: ProcessorUse = ProcessorUse()


SampleRecord = SourceSeen | GroupSeen | GroupArrivals | SampledPlace | RankSample


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """All that one rank has told of a sampling."""

    sample: RankSample
    sources: tuple[SourceSeen, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    arrivals: tuple[GroupArrivals, ...] = ()
    places: tuple[SampledPlace, ...] = ()


def sampled_in(rows: Iterable[object]) -> Sampled | None:
    """Return what the rows of an answer tell; None if they are those of no sampling.

    Arrivals whose columns do not belong together are left out.
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
    """Return the rows of an answer; what is longer than an answer may be is left out, the amounts never."""
    rest: Iterable[SampleRecord] = itertools.chain(sampled.sources, sampled.groups, sampled.arrivals, sampled.places)
    kept, left_out = within_bytes(rest, MAX_SAMPLE_BYTES)
    if left_out:
        lack = f"{left_out} of its records are left out, which are longer than an answer may be"
        kept.append(SourceSeen(library="dbg-agent", lack=lack))
    return (sampled.sample, *kept)
