"""Events for the command of ``--on-event``: their detection in changes of ranks, and their documents. Pure.

Ranks of one run often stop or crash together. So their changes are collected for GATHER_SECONDS and reported as one
event. The owner provides clocks and a timer.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dbg_broker.ranks.failures import has_failed
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_broker.timers import Timers
from dbg_wire.errors import printable
from dbg_wire.limits import notice_seconds
from dbg_wire.messages import Hang, StopInfo
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.ranks import CRASH, Place, RankState, show_left

GATHER_SECONDS = 1.0
"""Time between the first rank of an event and its report, in seconds: a thousand ranks report within that time."""

AGAIN_SECONDS = 60.0
"""Minimum time before a run's next event of the same kind, in seconds: a person needs time for each."""

SELDOM_SECONDS = 600.0
"""Minimum time between two reports of the same hang, or of refusals of the same host, in seconds."""

MAX_KNOWN = 3000
"""Maximum number of remembered events, three kinds for each of a thousand runs; the oldest is forgotten."""

MAX_SELDOM = 20
"""Maximum number of hangs, and of hosts, reported within SELDOM_SECONDS: a scan from many addresses must not flood a
chat.
"""

MAX_SENTENCE = 500
"""Maximum length of a sentence, in characters, so that it fits on a phone even if an exception's message is long."""

MAX_NAMED = 2000
"""Maximum length of a rank set or a path, in characters: the document must fit into the 64 KiB of a pipe."""

BREAK_IN = "interrupt"
"""Reason of a stop that a user has just requested; such a stop is no event, because the user knows of it."""


class EventKind(str, enum.Enum):
    """Kind of an event."""

    STOP = "stop"
    """The first rank of a run has stopped."""
    CRASH = "crash"
    """A rank has raised an uncaught exception, was killed, or ended with a status other than 0."""
    HANG = "hang"
    """``why`` names a culprit, or ``run --hang-after`` has detected that no rank moves."""
    LEASE = "lease"
    """A stop will soon end by itself."""
    REFUSED = "refused"
    """A request had a wrong token, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. ``at`` is in seconds since the epoch.

    ``ranks`` is a rank set of ``job``. ``address`` is the first of these ranks, or the origin of a refused request.
    ``where`` is the place in that rank's program. ``sentence`` describes the event for people, and ``next`` is the
    command to type now. ``broker`` is the name of the reporting broker, empty without a cluster.
    """

    kind: EventKind
    at: float
    sentence: str
    job: str = ""
    ranks: str = ""
    address: str = ""
    where: Place | None = None
    next: str = ""
    broker: str = ""


def document(event: Event, left_out: int = 0) -> bytes:
    """Return the JSON document of an event on one line, in ASCII; all its texts are printable.

    ``left_out`` is the number of earlier events that were not reported.
    """
    where, place = event.where, None
    if where is not None and where.file:
        file, function = printable(where.file, MAX_NAMED), printable(where.function, MAX_NAMED)
        place = {"file": file, "line": where.line, "function": function}
    fields_of_event: dict[str, object] = {
        "schema": 1,
        "event": event.kind.value,
        "at": round(event.at, 3),
        "where": place,
        "sentence": printable(event.sentence, MAX_SENTENCE),
        "left_out": left_out,
        **{name: printable(getattr(event, name), MAX_NAMED) or None for name in ("job", "ranks", "address", "next")},
    }
    if event.broker:
        fields_of_event["broker"] = event.broker
    return json.dumps(fields_of_event).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class _Seen:
    """A rank at the time of an event; the record of the rank changes later."""

    rank: RankRecord
    where: Place | None
    lease: float | None
    crash: str | None
    """Error of a kept crash, or None if the rank is not kept."""

    @property
    def failure(self) -> tuple[str, str]:
        """How the rank failed, and its error; a guard may report the signal of an ended process later."""
        status = self.rank.end.exit
        if self.crash is not None or status is None:
            return "crashed", self.crash or ""
        end = self.rank.end.listed()
        return f"{'was' if end.signal else 'has'} {end.state}", end.more

    def sentence(self, kind: EventKind) -> str:
        """Return a sentence about the rank without its subject."""
        if kind is EventKind.LEASE:
            return f"resumes by itself in {show_left(self.lease or 0.0)}"
        place = self.where
        at = f" at {place.file}:{place.line} in {place.function}" if place is not None and place.file else ""
        if kind is EventKind.STOP:
            return f"stopped{at}"
        way, error = self.failure
        return f"{way}{at}{f': {error}' if error else ''}"


def _seen(rank: RankRecord) -> _Seen:
    stop = rank.report.stop
    if stop is None or rank.state is RankState.EXITED:
        return _Seen(rank, rank.frames[-1] if rank.frames else None, None, None)
    return _Seen(rank, stop.where, stop.lease_seconds, stop.error)


def of_ranks(kind: EventKind, seen: Sequence[_Seen], at: float) -> Event:
    """Return the event of these ranks, which belong to one run."""
    first, job, others = seen[0], seen[0].rank.identity.job, len(seen) - 1
    also = f", and {others} other {'rank' if others == 1 else 'ranks'}" if others else ""
    address = first.rank.address
    return Event(
        kind=kind,
        at=at,
        sentence=f"{address} of job {job} {first.sentence(kind)}{also}",
        job=job,
        ranks=format_ranks({one.rank.identity.rank for one in seen}),
        address=address,
        where=first.where,
        next="dbg-attach list --all" if first.crash is None else f"dbg-attach {job}/{address}",
    )


def _ends_soon(stop: StopInfo) -> bool:
    lease, left = stop.lease, stop.lease_seconds
    return lease is not None and left is not None and left <= notice_seconds(lease)


class EventDetector:
    """Detector of a broker's events. Call it in one thread; each call takes microseconds."""

    def __init__(self, emit: Callable[[Event], None], timers: Timers) -> None:
        """Create a detector; ``emit`` is called with each event."""
        self._emit, self._timers = emit, timers
        self._last: dict[tuple[EventKind, RunName], float] = {}
        """Time of the last report for each kind of event of a run."""
        self._gathered: dict[tuple[EventKind, RunName], dict[str, _Seen]] = {}
        self._recent: dict[EventKind, dict[Hashable, float]] = {EventKind.HANG: {}, EventKind.REFUSED: {}}
        """For each reported hang and refused host, the time after which it may be reported again."""
        self._noted: dict[tuple[EventKind, str], Hashable] = {}
        """For each listed rank: the last process with a reported crash, or the last stop with a reported lease."""

    def rank_changed(self, rank: RankRecord) -> None:
        """Check a rank's new state for events."""
        stop = rank.report.stop
        if rank.state is RankState.STOPPED and stop is not None and stop.reason not in (CRASH, BREAK_IN):
            if (EventKind.STOP, rank.run) not in self._last:
                self._gather(EventKind.STOP, rank)
        elif (rank.state is RankState.STOPPED and stop is not None and stop.reason == CRASH) or (
            rank.state is RankState.EXITED and has_failed(rank)
        ):
            self._gather_once(EventKind.CRASH, rank, rank.registration.secret)
        if stop is not None and rank.is_live and _ends_soon(stop):
            self._gather_once(EventKind.LEASE, rank, stop.number)
        else:
            self._noted.pop((EventKind.LEASE, rank.key), None)

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        for kind in (EventKind.CRASH, EventKind.LEASE):
            self._noted.pop((kind, key), None)

    def hang(self, message: Hang, says: str = "") -> None:
        """Report a verdict of ``why``. ``says`` names the bearer who reported it; it is empty if the token has no name.

        The broker provides the command to type. Otherwise a driver of one job could make other users run any command.
        """
        found_by = f" (reported by {says})" if says else ""
        sentence = f"job {message.job} hangs{found_by}: {message.sentence}"
        name, job = (message.job, message.kind, message.ranks), message.job
        self._seldom(EventKind.HANG, name, sentence, job=job, ranks=message.ranks, next=f"dbg-attach why {job}/all")

    def refused(self, host: str, why: str) -> None:
        """Report that a request of ``host`` was refused because of its token."""
        sentence = f"a request from {host} was refused: {why.strip()}"
        self._seldom(EventKind.REFUSED, host, sentence, address=host, next="dbg-broker log")

    def _seldom(self, kind: EventKind, name: Hashable, sentence: str, **fields: str) -> None:
        now, recent = self._timers.clock(), self._recent[kind]
        for known in [known for known, end in recent.items() if end <= now]:
            del recent[known]
        if name not in recent and len(recent) < MAX_SELDOM:
            recent[name] = now + SELDOM_SECONDS
            event = Event(kind=kind, at=self._timers.wall(), sentence=sentence)
            self._emit(replace(event, **fields))  # type: ignore[arg-type] # only texts

    def _gather_once(self, kind: EventKind, rank: RankRecord, what: Hashable) -> None:
        if self._noted.get((kind, rank.key)) != what:
            self._noted[kind, rank.key] = what
            self._gather(kind, rank)

    def _gather(self, kind: EventKind, rank: RankRecord) -> None:
        """Report an event after GATHER_SECONDS, with this rank and the ranks that follow until then."""
        name, now = (kind, rank.run), self._timers.clock()
        if name not in self._gathered:
            self._gathered[name] = {}
            last = self._last.get(name)
            wait = GATHER_SECONDS if last is None else max(GATHER_SECONDS, last + AGAIN_SECONDS - now)
            self._timers.schedule(wait, partial(self._emit_gathered, name))
        self._gathered[name].setdefault(rank.key, _seen(rank))

    def _emit_gathered(self, name: tuple[EventKind, RunName]) -> None:
        kind, _ = name
        # A launcher ends the other ranks after a crash, and the broker may learn of these ends before the crash. The
        # broker now knows who sent the signals that ended these ranks, so the event omits these ranks.
        seen = [
            one for one in self._gathered.pop(name).values() if kind is not EventKind.CRASH or not one.rank.end.cause
        ]
        if seen:
            self._last.pop(name, None)
            self._last[name] = self._timers.clock()
            if len(self._last) > MAX_KNOWN:
                del self._last[next(iter(self._last))]
            self._emit(of_ranks(kind, seen, self._timers.wall()))
