"""Which ranks there are and what is true of each.

Pure: time is an argument (monotonic seconds), and nothing here knows a socket. What a message costs does not depend on
how many ranks there are.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dbg_broker.ranks.ended import EndedRanks
from dbg_broker.ranks.shared_texts import SharedTexts
from dbg_broker.ranks.weight import weight
from dbg_wire.errors import PeerError
from dbg_wire.messages import RankReport, Register
from dbg_wire.ranks import DIED, LIVE_STATES, Place, RankInfo, RankState
from dbg_wire.states import RankEvent, move_rank

_EVENT_OF_REPORT = {
    RankState.RUNNING: RankEvent.RUNS,
    RankState.STOPPED: RankEvent.STOPS,
    RankState.HELD: RankEvent.HOLDS,
}

_Group = tuple[str, str, str, int]


@dataclass(slots=True, eq=False)
class Rank:
    """Hold what is known of one rank.

    ``since`` is when what it reports began, ``heard`` when it last said anything, ``entered`` when it first did, and
    ``ended`` when it was lost or exited.
    """

    said: Register
    report: RankReport
    state: RankState
    child: int | None
    since: float
    heard: float
    entered: float
    ended: float = 0.0
    exit: int | None = None
    died: bool = False
    """Its process was found gone, and it had not said goodbye."""
    place: Place | None = None
    """Where a pulse last found it."""
    frames: tuple[Place, ...] = ()
    """The last stack of it that is known, outermost frame first."""
    detail: str = ""
    """What ended it, in a sentence."""
    signal: int | None = None
    """Which signal ends or ended it, as its guard says."""
    core: str = ""
    """Where its core is, in words."""
    mark: str = ""
    """What stands before its number in the address of a session that has no rank."""

    @property
    def key(self) -> str:
        """Return the rank's identity."""
        return self.said.key

    @property
    def address(self) -> str:
        """Return ``host:rank`` or ``host:rank.child``; of a stock session ``host:?number``."""
        child = "" if self.child is None else f".{self.child}"
        return f"{self.said.host}:{self.mark}{self.said.rank}{child}"

    @property
    def is_live(self) -> bool:
        """Tell whether its connection is up."""
        return self.state in LIVE_STATES

    @property
    def group(self) -> _Group:
        """Return what a rank has in common with its children."""
        return _group_of(self.said)

    @property
    def halted(self) -> bool:
        """Tell whether it last reported a stop or a hold."""
        return self.report.state is not RankState.RUNNING

    def _face(self) -> tuple[object, ...]:
        """Return what is listed of it, so that a report that changes nothing of it is no news."""
        stop, session = self.report.stop, self.report.session
        shown_stop = (stop.number, stop.reason, stop.where) if stop is not None and self.halted else None
        return self.state, shown_stop, session.engine if session else None, self.report.queued


@dataclass(frozen=True, slots=True)
class Registration:
    """Hold what a registration led to.

    ``renamed`` are other ranks which it turned into children, ``gone`` is the key that the same process had before.
    """

    rank: Rank
    renamed: tuple[Rank, ...] = ()
    gone: str | None = None


@dataclass(slots=True)
class _AddressGroup:
    """Index the ranks of one (job, run, host, rank) by what tells a parent from a child."""

    by_pid: dict[int, str] = field(default_factory=dict)
    below: dict[int, set[str]] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)
    size: int = 0
    last_child: int = 0


class Registry:
    """Hold all ranks, and move them by the table."""

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}
        self._groups: dict[_Group, _AddressGroup] = {}
        self._ended = EndedRanks()
        self._lost: dict[tuple[str, int], str] = {}
        """The keys of lost ranks by the process that each was: it may come back as another rank."""
        self._texts = SharedTexts()
        self.counts: Counter[RankState] = Counter()

    def find(self, key: str) -> Rank | None:
        """Return the rank with this key, or None."""
        return self._ranks.get(key)

    def keys(self) -> tuple[str, ...]:
        """Return all keys, in the order of registration."""
        return tuple(self._ranks)

    def live(self) -> int:
        """Return how many ranks are connected."""
        return sum(self.counts[state] for state in LIVE_STATES)

    def ranks(self) -> Iterator[Rank]:
        """Go through all ranks."""
        return iter(self._ranks.values())

    # ------------------------------------------------------------------------------------------------ what ranks say

    def register(self, message: Register, now: float, mark: str = "") -> Registration:
        """Enter a rank, or one that came back. Raise PeerError if it doesn't say which process it is.

        With a ``mark`` the broker itself speaks, for a debugger that can't.
        """
        if message.pid == 0 and not mark:
            raise PeerError("register.pid is 0, which is no rank's")
        message = _sharing(message, self._texts)
        old = self._ranks.get(message.key)
        if old is not None and old.state is RankState.EXITED:
            self._remove(old)
            old = None
        if old is None:
            return self._enter(message, now, mark)
        same_group = old.group == _group_of(message)
        self._leave_group(old)
        self._forget_lost(old)
        old.heard, old.said = now, message
        renamed = self._join_group(old, old.child if same_group and old.child is not None else message.child)
        self._take_report(old, message.report, now)
        self._ended.drop(old.key)
        return Registration(old, renamed)

    def _enter(self, message: Register, now: float, mark: str) -> Registration:
        state = move_rank(None, _EVENT_OF_REPORT[message.report.state])
        rank = Rank(
            said=message, report=message.report, state=state, child=None, since=now, heard=now, entered=now, mark=mark
        )
        rank.since = _began(message.report, now)
        gone = self._lost.get((message.kernel, message.pid)) if message.kernel else None
        if gone is not None:
            self._remove(self._ranks[gone])
        self._ranks[rank.key] = rank
        self.counts[state] += 1
        return Registration(rank, self._join_group(rank, message.child), gone)

    def report(self, rank: Rank, report: RankReport, now: float) -> bool:
        """Take what is now true of a rank and tell whether that changes its listing.

        Raise PeerError if the rank has said goodbye.
        """
        if rank.state is RankState.EXITED:
            raise PeerError("a report after the goodbye")
        face = rank._face()
        self._take_report(rank, report, now)
        rank.heard = now
        return rank._face() != face

    def heard(self, rank: Rank, now: float) -> bool:
        """Note that a rank said something, and tell whether that ended its silence."""
        rank.heard = now
        if rank.state is not RankState.UNRESPONSIVE:
            return False
        self._move(rank, _EVENT_OF_REPORT[rank.report.state])
        return True

    def goodbye(self, rank: Rank, exit_status: int | None, now: float) -> None:
        """Note that a rank ends. Raise PeerError if it said so before."""
        if rank.state is RankState.EXITED:
            raise PeerError("a second goodbye")
        rank.exit = exit_status
        self._end(rank, RankEvent.SAYS_GOODBYE, now)

    # --------------------------------------------------------------------------------------------- what the broker sees

    def fell_silent(self, rank: Rank) -> None:
        """Note that a live rank left its probes unanswered."""
        self._move(rank, RankEvent.FALLS_SILENT)

    def disconnected(self, rank: Rank, now: float) -> None:
        """Note that a rank's connection ended, which is no news of one that has said goodbye."""
        if rank.state is not RankState.EXITED:
            self._end(rank, RankEvent.CONNECTION_ENDS, now)

    def found_dead(self, rank: Rank, now: float) -> None:
        """Note that the process of a lost rank is gone."""
        rank.died = True
        self._end(rank, RankEvent.IS_FOUND_DEAD, now)
        self.killed(rank)

    def killed(self, rank: Rank) -> None:
        """Enter the signal that ended an exited rank, if its guard has told one."""
        if rank.state is RankState.EXITED and rank.signal is not None:
            rank.exit = -rank.signal
            rank.detail = rank.detail or describe_signal(rank.signal, rank.core)

    def expire(self, now: float) -> list[str]:
        """Forget ranks that ended long ago, are too many or occupy too much, and return their keys."""
        gone = self._ended.overdue(now)
        for key in gone:
            self._remove(self._ranks[key])
        return gone

    def last_words(self, rank: Rank, frames: tuple[Place, ...], detail: str) -> None:
        """Note where a rank was when it ended, which may become known before its end or after it."""
        rank.frames, rank.detail = frames, detail
        self._ended.resize(rank.key, _weight(rank))

    def info(
        self, rank: Rank, *, epoch: float, driver: str | None, watchers: int, driver_silent: bool = False
    ) -> RankInfo:
        """Return a rank as it is listed; ``epoch`` is the wall clock's time at monotonic zero."""
        said, report = rank.said, rank.report
        stop = report.stop if rank.halted else None
        began = {
            RankState.UNRESPONSIVE: rank.heard,
            RankState.LOST: rank.ended,
            RankState.EXITED: rank.ended,
        }.get(rank.state, rank.since)
        return RankInfo(
            key=rank.key,
            address=rank.address,
            job=said.job,
            run=said.run,
            host=said.host,
            rank=said.rank,
            local_rank=said.local_rank,
            world_size=said.world_size,
            child=rank.child,
            pid=said.pid,
            script=said.script,
            directory=said.directory,
            state=rank.state,
            reason=DIED if rank.died else _reason(rank),
            # A stock debugger may not say where it is.
            where=stop.where if stop and stop.where.file else None,
            engine=report.session.engine if report.session else None,
            queued=report.queued,
            since=round(epoch + began, 3),
            driver=driver,
            watchers=watchers,
            driver_silent=driver_silent,
            exit=rank.exit,
            detail=rank.detail or (stop.detail if stop else ""),
            coordinates=said.coordinates,
        )

    # ------------------------------------------------------------------------------------------------------- children

    def _join_group(self, rank: Rank, wanted: int | None) -> tuple[Rank, ...]:
        """Give a rank its place among those of its address, and return the ranks that became children by it.

        A rank is a child if a process above it is in the group as well, or if it was one before.
        """
        group = self._groups.setdefault(rank.group, _AddressGroup())
        has_parent = any(pid in group.by_pid for pid in rank.said.ancestors)
        rank.child = None
        if has_parent or wanted is not None:
            self._number(group, rank, wanted)
        renamed = [self._ranks[key] for key in sorted(group.below.get(rank.said.pid, ()))]
        renamed = [child for child in renamed if child.child is None and child.state is not RankState.EXITED]
        for child in renamed:
            self._number(group, child, None)
        group.size += 1
        if rank.state is not RankState.EXITED:
            group.by_pid[rank.said.pid] = rank.key
        for pid in rank.said.ancestors:
            group.below.setdefault(pid, set()).add(rank.key)
        return tuple(renamed)

    def _number(self, group: _AddressGroup, rank: Rank, wanted: int | None) -> None:
        holder = self._ranks.get(group.children.get(wanted, "")) if wanted is not None else None
        taken = holder is not None and holder is not rank and holder.state is not RankState.EXITED
        # Numbers grow and come back only with their owner: a listed `.1` must not be two processes one after another.
        rank.child = group.last_child + 1 if wanted is None or taken else wanted
        group.last_child = max(group.last_child, rank.child)
        group.children[rank.child] = rank.key

    def _leave_group(self, rank: Rank) -> None:
        group = self._groups[rank.group]
        group.size -= 1
        if group.size == 0:
            del self._groups[rank.group]
            return
        if group.by_pid.get(rank.said.pid) == rank.key:
            del group.by_pid[rank.said.pid]
        for pid in rank.said.ancestors:
            keys = group.below[pid]
            keys.discard(rank.key)
            if not keys:
                del group.below[pid]
        if rank.child is not None and group.children.get(rank.child) == rank.key:
            del group.children[rank.child]

    # ----------------------------------------------------------------------------------------------------------- moves

    def _take_report(self, rank: Rank, report: RankReport, now: float) -> None:
        if _occasion(rank.report) != _occasion(report):
            rank.since = _began(report, now)
        rank.report = report
        self._move(rank, _EVENT_OF_REPORT[report.state])

    def _end(self, rank: Rank, event: RankEvent, now: float) -> None:
        self._move(rank, event)
        rank.ended = now
        if rank.state is RankState.LOST:
            self._lost[rank.said.kernel, rank.said.pid] = rank.key
        else:
            self._forget_lost(rank)
        self._ended.put(rank.key, _weight(rank), now, is_stock=bool(rank.mark))
        if rank.state is RankState.EXITED:
            group = self._groups[rank.group]
            if group.by_pid.get(rank.said.pid) == rank.key:
                del group.by_pid[rank.said.pid]

    def _move(self, rank: Rank, event: RankEvent) -> None:
        self.counts[rank.state] -= 1
        rank.state = move_rank(rank.state, event)
        self.counts[rank.state] += 1

    def _forget_lost(self, rank: Rank) -> None:
        process = rank.said.kernel, rank.said.pid
        if self._lost.get(process) == rank.key:
            del self._lost[process]

    def _remove(self, rank: Rank) -> None:
        self._leave_group(rank)
        self._forget_lost(rank)
        del self._ranks[rank.key]
        self._ended.drop(rank.key)
        self.counts[rank.state] -= 1


def _weight(rank: Rank) -> int:
    """Return about how many bytes a rank occupies."""
    return weight(rank.said, rank.report, rank.frames, rank.place, rank.detail, rank.core)


def _sharing(said: Register, texts: SharedTexts) -> Register:
    """Return a registration that shares the texts which all ranks of a job have in common."""
    return replace(
        said,
        job=texts.share(said.job),
        run=texts.share(said.run),
        host=texts.share(said.host),
        release=texts.share(said.release),
        python=texts.share(said.python),
        kernel=texts.share(said.kernel),
        script=texts.share(said.script),
        directory=texts.share(said.directory),
    )


def _group_of(said: Register) -> _Group:
    return said.job, said.run, said.host, said.rank


def describe_signal(number: int, core: str) -> str:
    """Return in words which signal ended a process, and where its core is."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name}; {core}" if core else name


def _reason(rank: Rank) -> str | None:
    """Return why a rank is stopped; a held one is not."""
    stop = rank.report.stop
    return stop.reason if stop is not None and rank.report.state is RankState.STOPPED else None


def _occasion(report: RankReport) -> tuple[RankState, int | None]:
    """Return what a rank's ``since`` belongs to: one stretch of running, or one stop."""
    return report.state, report.stop.number if report.stop and report.state is not RankState.RUNNING else None


def _began(report: RankReport, now: float) -> float:
    """Return when what a report tells began: a rank counts the age of its stop, a broker may be younger."""
    if report.stop is None or report.state is RankState.RUNNING:
        return now
    return now - report.stop.age
