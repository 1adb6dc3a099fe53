"""All ranks and their states.

Pure: time is an argument (monotonic seconds), and this module does not use sockets. The cost of a message does not
depend on the number of ranks.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from dbg_broker.ranks.rank_record import HostName, RankRecord, RunName, digest_of
from dbg_wire import limits
from dbg_wire.errors import InvalidTransition, PeerError
from dbg_wire.messages import RankReport, Register
from dbg_wire.records.ranks import (
    SUBRUN,
    EndKind,
    Numbering,
    RankState,
)
from dbg_wire.records.record import Record


class RankEvent(str, enum.Enum):
    """Event that changes a rank's state, as the broker sees it."""

    RUNS = "runs"
    STOPS = "stops"
    HOLDS = "holds"
    FALLS_SILENT = "falls silent"
    CONNECTION_ENDS = "connection ends"
    SAYS_GOODBYE = "says goodbye"
    IS_FOUND_DEAD = "is found dead"


_R, _E = RankState, RankEvent

_ANY_REPORT = {_E.RUNS: _R.RUNNING, _E.STOPS: _R.STOPPED, _E.HOLDS: _R.HELD}
_ANY_END = {_E.CONNECTION_ENDS: _R.LOST, _E.SAYS_GOODBYE: _R.EXITED}

RANK_MOVES: Mapping[RankState | None, Mapping[RankEvent, RankState]] = {
    # A rank enters with its first report. A lost rank returns in the same way, in the state of its new report.
    None: _ANY_REPORT,
    **dict.fromkeys(_ANY_REPORT.values(), _ANY_REPORT | _ANY_END | {_E.FALLS_SILENT: _R.UNRESPONSIVE}),
    # The state before the silence is not stored: when the rank sends something again, the broker applies the rank's
    # last report again.
    _R.UNRESPONSIVE: _ANY_REPORT | _ANY_END,
    _R.LOST: _ANY_REPORT | {_E.IS_FOUND_DEAD: _R.EXITED},
    # This state is final: the end of the connection after the goodbye does not change it.
    _R.EXITED: {_E.CONNECTION_ENDS: _R.EXITED},
}


def move_rank(state: RankState | None, event: RankEvent) -> RankState:
    """Return the next state. Raise InvalidTransition if the event is impossible in this state."""
    try:
        return RANK_MOVES[state][event]
    except KeyError:
        raise InvalidTransition("a rank", "unknown" if state is None else state.value, event.value) from None


MAX_TEXTS = 8192
"""Maximum number of cached texts that many ranks share. A job has six such texts and two for each host, so the cache is
large enough for the largest job. ``sys.intern`` is not used, because Python 3.12 never frees its texts.
"""


@dataclass(slots=True)
class _Host:
    """Index of the ranks of one run on one host, which distinguishes parents from children."""

    by_pid: dict[int, str] = field(default_factory=dict)
    below: dict[int, set[str]] = field(default_factory=dict)
    children: dict[tuple[int, int], str] = field(default_factory=dict)
    """Key of each child, by two numbers: its rank's number, and its own number, such as 1 for the child ``.1``."""
    last_child: Counter[int] = field(default_factory=Counter)
    size: int = 0


@dataclass(slots=True)
class _Run:
    """Ranks of one run: ranks with a number from a launcher or library, and ranks without one."""

    numbered: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)


def runs_of(rank: RankRecord) -> set[RunName]:
    """Return the run of a rank, and the run of the program that started the rank's run."""
    job, run = rank.run
    return {rank.run, (job, run.partition(SUBRUN)[0])}


class Children:
    """Processes that are not ranks themselves: children of ranks, and parents that only wait for their ranks.

    ``ranks`` are all ranks by key. The length is the number of hosts.
    """

    def __init__(self, ranks: Mapping[str, RankRecord]) -> None:
        self._ranks = ranks
        self._hosts: defaultdict[HostName, _Host] = defaultdict(_Host)
        self._runs: defaultdict[RunName, _Run] = defaultdict(_Run)

    def __len__(self) -> int:
        return len(self._hosts)

    def join(self, rank: RankRecord, wanted: int | None) -> tuple[RankRecord, ...]:
        """Add a process, and determine whether it is a child. Return the other ranks that became children.

        A process that was a child stays one until a library gives it a number.
        """
        host = self._hosts[rank.host]
        rank.child = None
        if self._is_child(host, rank) or (wanted is not None and rank.numbering is not Numbering.LIBRARY):
            self._number(host, rank, wanted)
        return tuple(self._enter(host, rank))

    def leave(self, rank: RankRecord) -> None:
        """Remove a rank."""
        host = self._hosts[rank.host]
        host.size -= 1
        for name in runs_of(rank):
            run = self._runs[name]
            run.numbered.discard(rank.key)
            run.others.discard(rank.key)
            if not run.numbered and not run.others:
                del self._runs[name]
        if host.size == 0:
            del self._hosts[rank.host]
            return
        self.ended(rank)
        for pid in rank.registration.ancestors:
            keys = host.below[pid]
            keys.discard(rank.key)
            if not keys:
                del host.below[pid]
        at = rank.identity.rank, rank.child or 0
        if host.children.get(at) == rank.key:
            del host.children[at]

    def ended(self, rank: RankRecord) -> None:
        """Record that a rank has exited, and forget its pid: children of the pid's next owner are not the rank's."""
        host = self._hosts[rank.host]
        if host.by_pid.get(rank.process.pid) == rank.key:
            del host.by_pid[rank.process.pid]

    def _is_child(self, host: _Host, rank: RankRecord) -> bool:
        """Return True if the process is not a rank itself.

        It is a child of a rank that has the same number, or it only waits for ranks that it started.
        """
        above = (self._ranks[host.by_pid[pid]] for pid in rank.registration.ancestors if pid in host.by_pid)
        by_library = rank.numbering is Numbering.LIBRARY
        if any(
            one.identity.rank == rank.identity.rank and (one.numbering is Numbering.LIBRARY or not by_library)
            for one in above
        ):
            return True
        if by_library:
            return False
        below = (self._ranks[key].numbering for key in host.below.get(rank.process.pid, ()))
        if Numbering.LIBRARY in below:
            return True
        return rank.numbering is Numbering.NONE and bool(self._runs[rank.run].numbered)

    def _enter(self, host: _Host, rank: RankRecord) -> list[RankRecord]:
        """Add a rank to the indexes. Number the ranks that are children now, and return them."""
        host.size += 1
        if rank.state is not RankState.EXITED:
            host.by_pid[rank.process.pid] = rank.key
        above = [host.by_pid[pid] for pid in rank.registration.ancestors if pid in host.by_pid]
        for pid in rank.registration.ancestors:
            host.below.setdefault(pid, set()).add(rank.key)
        touched = {*above, *host.below.get(rank.process.pid, ())} - {rank.key}
        for run in (self._runs[name] for name in runs_of(rank)):
            (run.others if rank.numbering is Numbering.NONE else run.numbered).add(rank.key)
            if run.numbered == {rank.key}:
                touched |= run.others
        renamed = []
        for one in map(self._ranks.__getitem__, sorted(touched)):
            if one.child is not None or one.state is RankState.EXITED:
                continue
            there = self._hosts[one.host]
            if self._is_child(there, one):
                self._number(there, one, None)
                renamed.append(one)
        return renamed

    def _number(self, host: _Host, rank: RankRecord, wanted: int | None) -> None:
        number = rank.identity.rank
        holder = self._ranks.get(host.children.get((number, wanted), "")) if wanted is not None else None
        taken = holder is not None and holder is not rank and holder.state is not RankState.EXITED
        # A number is reused only by its owner, so that a listed `.1` never refers to two processes in succession.
        rank.child = host.last_child[number] + 1 if wanted is None or taken else wanted
        host.last_child[number] = max(host.last_child[number], rank.child)
        host.children[number, rank.child] = rank.key


_EVENT_OF_REPORT = {
    RankState.RUNNING: RankEvent.RUNS,
    RankState.STOPPED: RankEvent.STOPS,
    RankState.HELD: RankEvent.HOLDS,
}


@dataclass(frozen=True, slots=True)
class Registration:
    """Result of a registration.

    ``renamed`` are other ranks that became children. ``gone`` is the key that the same process had before.
    """

    rank: RankRecord
    renamed: tuple[RankRecord, ...] = ()
    gone: str | None = None


class Registry:
    """All ranks. The table ``RANK_MOVES`` defines the changes of their states."""

    def __init__(self) -> None:
        self._ranks: dict[str, RankRecord] = {}
        self.children = Children(self._ranks)
        self._ended: dict[str, float] = {}
        """End times of ended ranks by key, the earliest first."""
        self._lost: dict[tuple[str, int], str] = {}
        """Keys of lost ranks by their process, because the process may register again as another rank."""
        self._share = lru_cache(MAX_TEXTS)(str)
        self.counts: Counter[RankState] = Counter()

    def find(self, key: str) -> RankRecord | None:
        """Return the rank with this key, or None."""
        return self._ranks.get(key)

    def keys(self) -> tuple[str, ...]:
        """Return all keys, in the order of registration."""
        return tuple(self._ranks)

    def ranks(self) -> Iterator[RankRecord]:
        """Iterate over all ranks."""
        return iter(self._ranks.values())

    # ---------------------------------------------------------------------------------------------- messages from ranks

    def register(self, message: Register, now: float) -> Registration:
        """Register a new rank, or a lost one that has returned."""
        secret = message.secret
        message = _sharing(message.replace(secret=digest_of(secret)), self._share)
        old = self._ranks.get(message.identity.key)
        if old is not None and old.state is RankState.EXITED:
            self._remove(old)
            old = None
        if old is None:
            return self._enter(message, secret, now)
        is_same = old.identity == message.identity
        self.children.leave(old)
        self._forget_lost(old)
        old.heard, old.registration = now, message
        renamed = self.children.join(old, old.child if is_same and old.child is not None else message.child)
        self._note_report(old, message.report, now)
        self._ended.pop(old.key, None)
        return Registration(old, renamed)

    def _enter(self, message: Register, secret: str, now: float) -> Registration:
        state = move_rank(None, _EVENT_OF_REPORT[message.report.state])
        rank = RankRecord(
            registration=message,
            report=message.report,
            state=state,
            child=None,
            since=_began(message.report, now),
            heard=now,
            entered=now,
        )
        lost = self._ranks.get(self._lost.get((message.kernel, message.process.pid), "")) if message.kernel else None
        # Any process may claim a kernel and a pid. Its secret proves that this is the process that was lost.
        gone = lost.key if lost is not None and lost.is_same_process(secret) else None
        if lost is not None and gone is not None:
            self._remove(lost)
        self._ranks[rank.key] = rank
        self.counts[state] += 1
        return Registration(rank, self.children.join(rank, message.child), gone)

    def forget(self, rank: RankRecord) -> None:
        """Remove a rank, for example because its key now belongs to another process."""
        self._remove(rank)

    def take_over(self, rank: RankRecord, now: float) -> tuple[RankRecord, ...] | None:
        """Add an ended or lost rank of a broker that shuts down.

        Return the other ranks that became children, or None if the rank is already known here.
        """
        if rank.key in self._ranks:
            return None
        rank.registration = _sharing(rank.registration, self._share)
        self._ranks[rank.key] = rank
        self.counts[rank.state] += 1
        self._ended[rank.key] = now
        if rank.state is RankState.LOST:
            self._lost[rank.registration.kernel, rank.process.pid] = rank.key
        return self.children.join(rank, rank.child)

    def report(self, rank: RankRecord, report: RankReport, now: float) -> bool:
        """Store a rank's new report. Return True if this changes its listing.

        Raise PeerError if the rank has sent its goodbye.
        """
        if rank.state is RankState.EXITED:
            raise PeerError("a `report` after the `goodbye`")
        listed = rank.listed_state()
        self._note_report(rank, report, now)
        rank.heard = now
        return rank.listed_state() != listed

    def heard(self, rank: RankRecord, now: float) -> bool:
        """Record that a rank sent something. Return True if that ended its silence."""
        rank.heard = now
        if rank.state is not RankState.UNRESPONSIVE:
            return False
        self._move(rank, _EVENT_OF_REPORT[rank.report.state])
        return True

    def goodbye(self, rank: RankRecord, exit_status: int | None, now: float) -> None:
        """Record that a rank ends. Raise PeerError if it already sent a goodbye."""
        if rank.state is RankState.EXITED:
            raise PeerError("a second `goodbye`")
        rank.end.exit = exit_status
        self._end(rank, RankEvent.SAYS_GOODBYE, now)

    # --------------------------------------------------------------------------------------- observations of the broker

    def fell_silent(self, rank: RankRecord) -> None:
        """Record that a live rank left its probes unanswered."""
        self._move(rank, RankEvent.FALLS_SILENT)

    def disconnected(self, rank: RankRecord, now: float) -> None:
        """Record that a rank's connection ended without a goodbye."""
        self._end(rank, RankEvent.CONNECTION_ENDS, now)

    def found_dead(self, rank: RankRecord, now: float) -> None:
        """Record that the process of a lost rank is gone."""
        rank.end.kind = EndKind.DIED
        self._end(rank, RankEvent.IS_FOUND_DEAD, now)
        self.killed(rank)

    def killed(self, rank: RankRecord) -> None:
        """Record the signal or status that ended an exited rank, if its guard reported one and the rank did not."""
        if rank.state is not RankState.EXITED:
            return
        if rank.end.signal is not None:
            rank.end.exit = -rank.end.signal
        elif rank.end.kind is EndKind.DIED and rank.end.exit is None:
            rank.end.exit = rank.end.status

    def condemned(self, key: str, who: str) -> None:
        """Note who is about to kill a rank from a terminal, because the rank and its guard report only the signal."""
        rank = self._ranks.get(key)
        if rank is not None:
            rank.end.cause = f"from {who}'s debugger"

    def expire(self, now: float) -> list[str]:
        """Forget ranks that ended long ago, and surplus ended ranks. Return their keys.

        Surplus ranks are taken from the job with the most ended ranks, oldest first, so no job displaces the ranks of
        another.
        """
        gone = list(takewhile(lambda key: now - self._ended[key] >= limits.ENDED_RANK_SECONDS, self._ended))
        for key in gone:
            self._remove(self._ranks[key])
        surplus = len(self._ended) - limits.MAX_ENDED_RANKS
        if surplus > 0:
            jobs: defaultdict[str, deque[str]] = defaultdict(deque)
            for key in self._ended:
                jobs[self._ranks[key].identity.job].append(key)
            for _ in range(surplus):
                gone.append(max(jobs.values(), key=len).popleft())
                self._remove(self._ranks[gone[-1]])
        return gone

    # ---------------------------------------------------------------------------------------------------- state changes

    def _note_report(self, rank: RankRecord, report: RankReport, now: float) -> None:
        if _occasion(rank.report) != _occasion(report):
            rank.since = _began(report, now)
        rank.report = report
        self._move(rank, _EVENT_OF_REPORT[report.state])

    def _end(self, rank: RankRecord, event: RankEvent, now: float) -> None:
        if rank.is_live:
            rank.end.left = now
        self._move(rank, event)
        rank.end.at = now
        if rank.state is RankState.LOST:
            self._lost[rank.registration.kernel, rank.process.pid] = rank.key
        else:
            self._forget_lost(rank)
        self._ended.pop(rank.key, None)
        self._ended[rank.key] = now
        if rank.state is RankState.EXITED:
            self.children.ended(rank)

    def _move(self, rank: RankRecord, event: RankEvent) -> None:
        self.counts[rank.state] -= 1
        rank.state = move_rank(rank.state, event)
        self.counts[rank.state] += 1

    def _forget_lost(self, rank: RankRecord) -> None:
        process = rank.registration.kernel, rank.process.pid
        if self._lost.get(process) == rank.key:
            del self._lost[process]

    def _remove(self, rank: RankRecord) -> None:
        self.children.leave(rank)
        self._forget_lost(rank)
        del self._ranks[rank.key]
        self._ended.pop(rank.key, None)
        self.counts[rank.state] -= 1


def _sharing(registration: Register, share: Callable[[str], str]) -> Register:
    """Return a registration whose texts are shared with the other ranks of the job that have equal texts."""

    def shared(record: Record, *names: str) -> dict[str, str]:
        mine: dict[str, str] = {name: getattr(record, name) for name in names}
        return {name: share(text) for name, text in mine.items()}

    return registration.replace(
        identity=registration.identity.replace(**shared(registration.identity, "job", "run", "host")),
        process=registration.process.replace(
            **shared(registration.process, "release", "python", "script", "directory")
        ),
        **shared(registration, "kernel"),
    )


def _occasion(report: RankReport) -> tuple[RankState, int | None]:
    """Return an id of a rank's present stop or other state. If a report changes the id, ``since`` is set again."""
    return report.state, report.stop.number if report.stop and report.state is not RankState.RUNNING else None


def _began(report: RankReport, now: float) -> float:
    """Return the start of the reported state. A stop is reported with its age: it may be older than the broker."""
    if report.stop is None or report.state is RankState.RUNNING:
        return now
    return now - report.stop.age
