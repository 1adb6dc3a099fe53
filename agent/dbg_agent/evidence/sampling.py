"""A sampler: it looks at this rank now and then, for as long as a question about that is open, in the link's thread.

Several questions share the looks, so that many terminals cost a rank no more than one. Looks that take longer come more
seldom.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, FrameType, ModuleType

from dbg_agent.evidence.mpi import MODULE as MPI_MODULE
from dbg_agent.evidence.mpi import may_be_asked, thread_seen
from dbg_agent.frames.stacks import is_own, is_users_file, outward, thread_frame
from dbg_agent.host.counters import Kernel, Reading, disks, processors
from dbg_agent.torch.arrivals import Completions, Told, arrivals_of
from dbg_wire.messages import Ask, Kind
from dbg_wire.records.evidence import CollectiveSeen, GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted
from dbg_wire.records.samples import (
    MAX_FRAMES,
    MAX_LOOKS,
    MAX_PLACES,
    GroupArrivals,
    RankSample,
    Sampled,
    SampledPlace,
    SampleQuestion,
    sample_rows,
)

MAX_SITES = 256
"""Places of calls of MPI that are kept: a program has some ten."""

Step = tuple[str, int, str]
Site = tuple[CodeType, int]
Call = tuple[str, str]
Seen = tuple[tuple[Step, ...], Call]


class Places:
    """The places of the main thread at the looks of one sampling; each look is a time and a place."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupSeen] = {}
        """The communicators of the calls that were seen, by name."""
        self._sites: dict[Site, Call] = {}
        self._known: dict[Seen, Seen] = {}

    def look(self) -> Seen:
        """Return the innermost frames, the outermost first, and the group and name of the call of MPI if it is in one.

        One of the user's own code is among them. No frame is kept, which would keep the program's tensors alive.
        """
        innermost = thread_frame(threading.main_thread().ident)
        frames = list(islice((one for one in outward(innermost) if not is_own(one)), MAX_FRAMES))
        if not any(is_users_file(one.f_code.co_filename) for one in frames):
            users = (one for one in outward(innermost) if is_users_file(one.f_code.co_filename) and not is_own(one))
            frames[MAX_FRAMES - 1 :] = islice(users, 1)
        steps = tuple((f.f_code.co_filename, f.f_lineno or 0, f.f_code.co_name) for f in reversed(frames))
        mpi = sys.modules.get(MPI_MODULE)
        call = self._call(mpi, innermost) if mpi is not None and innermost is not None else ("", "")
        # A rank is seen at few places, and as often as not at the same one.
        return self._known.setdefault((steps, call), (steps, call))

    def _call(self, mpi: ModuleType, innermost: FrameType) -> Call:
        site = innermost.f_code, innermost.f_lasti
        if site not in self._sites and len(self._sites) < MAX_SITES:
            # To find out what an instruction calls takes as long as ten looks, and mostly it calls the same again.
            self._sites[site] = self._read(mpi, innermost)
        return self._sites.get(site, ("", ""))

    def _read(self, mpi: ModuleType, innermost: FrameType) -> Call:
        group = name = ""
        try:
            for row in thread_seen(mpi, innermost, may_ask=may_be_asked(mpi)):
                if isinstance(row, GroupSeen):
                    self.groups.setdefault(row.name, row)
                elif isinstance(row, CollectiveSeen):
                    group, name = row.group, row.name
        except Exception:
            # Another release of mpi4py, or objects of the program: the place is known all the same.
            return "", ""
        return group, name


def sampled_places(looks: Sequence[tuple[int, Seen]], begin: int) -> list[SampledPlace]:
    """Return the places of looks, which are times in microseconds and places; the most frequent ones first.

    Of many places the rare ones end at the user's own line. Beyond MAX_PLACES the rest is one place without frames.
    """
    kept = {seen for seen, _ in Counter(seen for _, seen in looks).most_common(MAX_PLACES // 2)}
    shown = [(at, seen if seen in kept else _of_user(seen)) for at, seen in looks]
    kept = {seen for seen, _ in Counter(seen for _, seen in shown).most_common(MAX_PLACES - 1)}
    times: dict[Seen | None, list[int]] = {}
    for at, seen in shown:
        times.setdefault(seen if seen in kept else None, []).append(max(0, at - begin))
    rows = [_row(seen, tuple(when)) for seen, when in times.items()]
    return sorted(rows, key=lambda row: -len(row.times))


def _of_user(seen: Seen) -> Seen:
    """Return a place without the frames of libraries that the user's innermost one has called."""
    steps, call = seen
    last = max((number for number, step in enumerate(steps, 1) if is_users_file(step[0])), default=len(steps))
    return steps[:last], call


def _row(seen: Seen | None, times: tuple[int, ...]) -> SampledPlace:
    steps, (group, call) = seen if seen is not None else ((), ("", ""))
    frames = tuple(fitted(Place, file=file, line=line, function=function) for file, line, function in steps)
    return fitted(SampledPlace, frames=frames, times=times, group=group, call=call)


Answer = Callable[..., None]
"""Sends the answer to a question."""

BETWEEN_SECONDS = 0.1
"""Seconds between two looks on average: in ten seconds a hundred looks tell a part of the time to within a tenth."""

LOOK_SHARE = 0.004
"""The part of the time that looks take at most; the program may not run meanwhile."""

GOLDEN = 0.6180339887
"""The part of a turn by which the pace of looks moves on: looks at an even pace could meet each step at one place."""

STILL_SECONDS = 0.25
"""Seconds by which a look is late that are told as standing still: a busy machine delays each thread a little."""

STILL_SHARE = 0.2
"""The part of such a time in which the process may have run."""

MOST_OPEN = 16
"""Questions that are open at once: each keeps a reading of counters."""

READ_AGAIN = 100
"""How many times the time that it took passes at least before the recorders are read again."""


@dataclass(eq=False)
class _Open:
    """One question: what it wants, since when by the day's clock in microseconds, and the counters at its begin.

    ``still`` are seconds in which nothing of the process ran.
    """

    ask: Ask
    question: SampleQuestion
    answer: Answer
    begin: int
    before: Reading
    still: float = 0.0


@dataclass
class _Looks:
    """The looks since the first of the open questions; ``due`` and ``cpu`` are for the next one."""

    places: Places = field(default_factory=Places)
    seen: deque[tuple[int, Seen]] = field(default_factory=lambda: deque(maxlen=MAX_LOOKS))
    completions: Completions = field(default_factory=Completions)
    count: int = 0
    due: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True)
class _Recorded:
    """What the recorders told at a time on the monotonic clock, and how long that took."""

    at: float
    took: float
    told: tuple[Told, ...]


class Sampler:
    """The open questions of one rank, and the looks that they share; ``call_later`` calls in the link's thread."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._call_later = call_later
        self._kernel = Kernel()
        self._open: list[_Open] = []
        self._looks = _Looks()
        self._read: _Recorded | None = None

    def begin(self, ask: Ask, question: SampleQuestion, answer: Answer) -> None:
        """Sample for as long as a question wants, and answer then."""
        if len(self._open) >= MOST_OPEN:
            answer(ask, Kind.ERROR, f"{MOST_OPEN} samplings of it are open already")
            return
        seconds = min(question.seconds, ask.seconds)
        one = _Open(ask, question, answer, time.time_ns() // 1000, self._kernel.read())
        self._open.append(one)
        if len(self._open) == 1:
            self._looks = looks = _Looks()
            self._look(looks)
        self._call_later(seconds, lambda: self._finish(one))

    def _look(self, looks: _Looks) -> None:
        """Look once, and arrange for the next look, as long as a question is open that these looks are for."""
        if not self._open or looks is not self._looks:
            return
        began = time.thread_time()
        self._note_stillness()
        looks.seen.append((time.time_ns() // 1000, looks.places.look()))
        if any(one.question.ends for one in self._open):
            looks.completions.look()
        looks.count += 1
        longest = max(one.question.seconds for one in self._open)
        pause = max(BETWEEN_SECONDS, longest / MAX_LOOKS, (time.thread_time() - began) / LOOK_SHARE)
        pause *= 0.5 + looks.count * GOLDEN % 1.0
        looks.due, looks.cpu = time.monotonic() + pause, time.process_time()
        self._call_later(pause, lambda: self._look(looks))

    def _note_stillness(self) -> None:
        """Note that this look is late because nothing of the process ran: it was stopped, or had no core."""
        looks = self._looks
        late = time.monotonic() - looks.due
        if looks.count and late > STILL_SECONDS and time.process_time() - looks.cpu < STILL_SHARE * late:
            for one in self._open:
                one.still += late

    def _finish(self, one: _Open) -> None:
        self._open.remove(one)
        try:
            rows = sample_rows(self._sampled(one))
        except Exception as error:
            one.answer(one.ask, Kind.ERROR, f"it can't be sampled ({type(error).__name__})")
        else:
            one.answer(one.ask, Kind.VALUE, "", rows=rows)

    def _sampled(self, one: _Open) -> Sampled:
        looks = [look for look in self._looks.seen if look[0] >= one.begin]
        after = self._kernel.read()
        told = self._arrivals(one)
        return Sampled(
            sample=fitted(
                RankSample,
                clock=time.time_ns() // 1000,
                begin=one.begin,
                looks=len(looks),
                still=one.still,
                seconds=after.at - one.before.at,
                processors=processors(one.before, after, self._kernel.quota()),
                disks=disks(one.before, after),
            ),
            sources=tuple(row for row in told if isinstance(row, SourceSeen)),
            groups=(*(row for row in told if isinstance(row, GroupSeen)), *self._looks.places.groups.values()),
            arrivals=tuple(row for row in told if isinstance(row, GroupArrivals)),
            places=tuple(sampled_places(looks, one.begin)),
        )

    def _arrivals(self, one: _Open) -> tuple[Told, ...]:
        """Return what the recorders tell, or told so lately that to read them again would cost the program too much."""
        now, read = time.monotonic(), self._read
        if read is None or now - read.at >= READ_AGAIN * read.took:
            told = arrivals_of(one.question.arrivals, one.question.seconds, self._looks.completions)
            read = self._read = _Recorded(now, time.monotonic() - now, tuple(told))
        return read.told
