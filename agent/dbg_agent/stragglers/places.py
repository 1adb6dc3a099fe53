"""A sampling profiler of the main thread alone: where it is at each look, and in which call of MPI."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from types import CodeType, FrameType, ModuleType

from dbg_agent.evidence.mpi import MODULE as MPI_MODULE
from dbg_agent.evidence.mpi import may_be_asked, thread_seen
from dbg_agent.stop.stacks import is_own, outward, thread_frame
from dbg_wire.records.evidence import CollectiveSeen, GroupSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted
from dbg_wire.records.samples import MAX_FRAMES, MAX_PLACES, SampledPlace

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

        No frame is kept, which would keep the program's tensors alive.
        """
        innermost = thread_frame(threading.main_thread().ident)
        frames = list(islice((one for one in outward(innermost) if not is_own(one)), MAX_FRAMES))
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

    Beyond MAX_PLACES the rest is one place without frames.
    """
    kept = {seen for seen, _ in Counter(seen for _, seen in looks).most_common(MAX_PLACES - 1)}
    times: dict[Seen | None, list[int]] = {}
    for at, seen in looks:
        times.setdefault(seen if seen in kept else None, []).append(max(0, at - begin))
    rows = [_row(seen, tuple(when)) for seen, when in times.items()]
    return sorted(rows, key=lambda row: -len(row.times))


def _row(seen: Seen | None, times: tuple[int, ...]) -> SampledPlace:
    steps, (group, call) = seen if seen is not None else ((), ("", ""))
    frames = tuple(fitted(Place, file=file, line=line, function=function) for file, line, function in steps)
    return fitted(SampledPlace, frames=frames, times=times, group=group, call=call)
