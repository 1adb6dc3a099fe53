"""Which changes of ranks are events, and how many of them are one. Pure; its owner gives it clocks and a timer.

Ranks of one run stop or crash within a moment, so that what happens to a run is gathered for GATHER_SECONDS and told as
one event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial

from dbg_broker.journal import event
from dbg_broker.journal.event import Event, EventKind, RankSnapshot
from dbg_broker.quotas import LruMap
from dbg_broker.ranks.failures import has_failed
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_broker.timers import Timers
from dbg_wire.limits import notice_seconds
from dbg_wire.messages import Hang
from dbg_wire.records.ranks import CRASH, RankState

GATHER_SECONDS = 1.0
"""Seconds for which ranks of a run are gathered: by then a thousand have reported what happened to the first."""

AGAIN_SECONDS = 60.0
"""Seconds before a run's next event of the same kind: the person who was told of the first one needs time to look."""

SELDOM_SECONDS = 600.0
"""Seconds in which the same hang, or refusals of the same host, are told once."""

MAX_RUNS = 1000
"""Runs of which it is known what was told; of more the one of which nothing happened for longest is forgotten."""

MAX_SELDOM = 20
"""Hangs that are told within SELDOM_SECONDS, and hosts likewise; a scan from many addresses fills nobody's chat."""

BREAK_IN = "interrupt"
"""Reason of a stop that a user has asked for just now."""


@dataclass(slots=True)
class _Told:
    """What was told of one run, and what is gathered."""

    has_stopped: bool = False
    gathered: dict[EventKind, dict[str, RankSnapshot]] = field(default_factory=dict)
    last: dict[EventKind, float] = field(default_factory=dict)


class Occasions:
    """The events of a broker's life; all methods belong to one thread, and take microseconds."""

    def __init__(self, emit: Callable[[Event], None], timers: Timers) -> None:
        """Call ``emit`` with each event."""
        self._emit, self._clock, self._wall, self._schedule = emit, timers.clock, timers.wall, timers.schedule
        self._runs: LruMap[RunName, _Told] = LruMap(MAX_RUNS)
        self._leases: dict[str, int] = {}
        """The stop of each rank whose lease was told to end."""
        self._crashed: dict[str, str] = {}
        """For each listed rank whose crash was told, the digest that identifies its process."""
        self.broker = ""
        """This broker's name in a cluster; empty without one."""
        self.speaks_for: Callable[[str], bool] = lambda _run: True
        """Tells whether this broker is the one of a cluster that tells of a run: all of them see all ranks."""
        self._seldom = {kind: OrderedDict[Hashable, float]() for kind in (EventKind.HANG, EventKind.REFUSED)}

    def rank_changed(self, rank: RankRecord) -> None:
        """Take in what is now true of a rank."""
        stop = rank.report.stop
        if rank.state is RankState.STOPPED and stop is not None:
            if stop.reason == CRASH:
                self._note_crash(rank)
            elif stop.reason != BREAK_IN:
                self._stopped(rank)
        elif rank.state is RankState.EXITED and has_failed(rank):
            self._note_crash(rank)
        self._check_lease(rank)

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        self._leases.pop(key, None)
        self._crashed.pop(key, None)

    def hang(self, message: Hang, says: str = "") -> None:
        """Take in a verdict of ``why``, told by ``says``; empty for the user."""
        if self._is_news(EventKind.HANG, (message.job, message.kind, message.ranks)):
            self._tell(event.hang(message, says, self._wall()))

    def refused(self, host: str, why: str) -> None:
        """Take in that a request of ``host`` was refused, for its token."""
        if self._is_news(EventKind.REFUSED, host):
            self._tell(event.refused(host, why, self._wall()))

    # --------------------------------------------------------------------------------------------------------- of ranks

    def _stopped(self, rank: RankRecord) -> None:
        told = self._of(rank)
        if not told.has_stopped:
            self._gather(EventKind.STOP, rank, told)

    def _note_crash(self, rank: RankRecord) -> None:
        if self._crashed.get(rank.key) != rank.registration.secret:
            self._crashed[rank.key] = rank.registration.secret
            self._gather(EventKind.CRASH, rank, self._of(rank))

    def _check_lease(self, rank: RankRecord) -> None:
        stop = rank.report.stop
        lease = stop.lease if stop is not None else None
        left = stop.lease_seconds if stop is not None else None
        if stop is None or lease is None or left is None or left > notice_seconds(lease) or not rank.is_live:
            self._leases.pop(rank.key, None)
        elif self._leases.get(rank.key) != stop.number:
            self._leases[rank.key] = stop.number
            self._gather(EventKind.LEASE, rank, self._of(rank))

    def _of(self, rank: RankRecord) -> _Told:
        return self._runs.use(rank.run, _Told)

    def _gather(self, kind: EventKind, rank: RankRecord, told: _Told) -> None:
        """Have an event told soon, of this rank and of those that follow until then."""
        gathered = told.gathered.get(kind)
        if gathered is None:
            gathered = told.gathered[kind] = {}
            pause = told.last.get(kind, self._clock() - AGAIN_SECONDS) + AGAIN_SECONDS - self._clock()
            self._schedule(max(GATHER_SECONDS, pause), partial(self._emit_gathered, kind, told))
        gathered.setdefault(rank.key, RankSnapshot(rank))

    def _emit_gathered(self, kind: EventKind, told: _Told) -> None:
        seen = list(told.gathered.pop(kind, {}).values())
        if kind is EventKind.CRASH:
            # A launcher ends the other ranks after a crash, and the broker may hear of these first.
            seen = [one for one in seen if not one.rank.end.cause]
        if seen:
            told.last[kind] = self._clock()
            told.has_stopped = told.has_stopped or kind is EventKind.STOP
            if self.speaks_for("/".join(seen[0].rank.run)):
                self._tell(event.of_ranks(kind, seen, self._wall()))

    def _tell(self, said: Event) -> None:
        self._emit(replace(said, broker=self.broker))

    def _is_news(self, kind: EventKind, name: Hashable) -> bool:
        now, told = self._clock(), self._seldom[kind]
        while told and next(iter(told.values())) <= now:
            told.popitem(last=False)
        if name in told or len(told) >= MAX_SELDOM:
            return False
        told[name] = now + SELDOM_SECONDS
        return True
