"""What the broker knows of one rank and of its connection, and how the rank is listed."""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass, field

from dbg_broker.home.tokens import ANY_RANK, Bearer
from dbg_broker.relay.relay import RankPeer
from dbg_broker.timers import TokenBucket
from dbg_wire.errors import printable
from dbg_wire.messages import Ask, Finding, Pulse, RankReport, Register
from dbg_wire.records.ranks import (
    LIVE_STATES,
    NO_SEATS,
    NO_STOP,
    End,
    EndKind,
    ListedStop,
    Numbering,
    Place,
    RankIdentity,
    RankInfo,
    RankProcess,
    RankState,
    SeatCounts,
)
from dbg_wire.records.record import InvalidMessage, decode_record

logger = logging.getLogger("dbg_broker")

RunName = tuple[str, str]
"""Job and run: the ranks that a launcher starts and ends together."""

HostName = tuple[str, str, str]
"""Job, run and host: the ranks among which parents and children are."""


@dataclass(slots=True)
class RankEnd:
    """How a rank has ended or is about to, as far as that is known: it becomes known in parts."""

    at: float = 0.0
    """When it was lost or exited."""
    left: float = 0.0
    """When its connection ended, or when it said goodbye."""
    exit: int | None = None
    kind: EndKind = EndKind.GOODBYE
    error: str = ""
    """The exception that ended it."""
    signal: int | None = None
    """Which signal ends or ended it, as its guard says."""
    status: int | None = None
    """With which status it ended by itself without a goodbye, as its guard says."""
    cause: str = ""
    """Who sent that signal, as the end of a sentence; empty if nobody knows."""
    note: str = ""
    """What its guard says beside the cause."""

    def listed(self) -> End:
        """Return what is listed of it."""
        by_signal = self.signal is not None and self.exit == -self.signal
        cause, note = (self.cause, self.note) if by_signal else ("", "")
        return End(kind=self.kind, exit=self.exit, error=self.error, cause=cause, note=note)


@dataclass(slots=True, eq=False)
class RankRecord:
    """What is known of one rank.

    ``since`` is when what it reports began, ``heard`` when it last said anything, and ``entered`` when it first did.
    The secret in its registration is only a digest, see :func:`digest_of`. A broker that ends hands it to another one.
    """

    registration: Register
    report: RankReport
    state: RankState
    child: int | None
    since: float
    heard: float
    entered: float
    end: RankEnd = field(default_factory=RankEnd)
    waits_in: str = ""
    """The collective that its step was in at its last pulse; empty unless it steps."""
    will_stop: bool = False
    """Whether a break-in is pending."""
    _place: Place | None = None
    _frames: tuple[Place, ...] = ()
    _unread: str = ""

    @property
    def key(self) -> str:
        """Return the rank's identity."""
        return self.registration.identity.key

    @property
    def identity(self) -> RankIdentity:
        """Return which rank of which job it is."""
        return self.registration.identity

    @property
    def run(self) -> RunName:
        """Return which launch of which job it is of."""
        return self.identity.job, self.identity.run

    @property
    def process(self) -> RankProcess:
        """Return what it has said of its process."""
        return self.registration.process

    @property
    def address(self) -> str:
        """Return ``host:rank`` or ``host:rank.child``; ``host:?number`` if it is no rank of a job."""
        child = "" if self.child is None else f".{self.child}"
        mark = "?" if self.registration.placement is None else ""
        return f"{self.identity.host}:{mark}{self.identity.rank}{child}"

    @property
    def place(self) -> Place | None:
        """Return where it was at its last pulse."""
        self._read_pulse()
        return self._place

    @property
    def frames(self) -> tuple[Place, ...]:
        """Return the last stack of it that is known, outermost frame first."""
        self._read_pulse()
        return self._frames

    @frames.setter
    def frames(self, frames: tuple[Place, ...]) -> None:
        self._read_pulse()
        self._frames = frames

    def keep_pulse(self, text: str) -> None:
        """Keep a pulse as it came: it is read when somebody asks for its stack, and most are never asked for."""
        self._unread = text

    def note_pulse(self, pulse: Pulse) -> None:
        """Take note of where it is."""
        self._unread, self._place, self._frames = "", pulse.where, pulse.frames

    def _read_pulse(self) -> None:
        if not self._unread:
            return
        text, self._unread = self._unread, ""
        try:
            self.note_pulse(decode_record(Pulse, text))
        except InvalidMessage as error:
            logger.info("the stack of %s is not known: %s", printable(self.key), printable(str(error)))

    @property
    def is_live(self) -> bool:
        """Tell whether its connection is up."""
        return self.state in LIVE_STATES

    @property
    def host(self) -> HostName:
        """Host of the rank in its run."""
        return (*self.run, self.identity.host)

    @property
    def numbering(self) -> Numbering:
        """Source of the rank's number."""
        placement = self.registration.placement
        return Numbering.LAUNCHER if placement is None else placement.numbering

    @property
    def halted(self) -> bool:
        """Tell whether it last reported a stop or a hold."""
        return self.report.state is not RankState.RUNNING

    @property
    def steps(self) -> bool:
        """Tell whether its stop's thread runs to the end of a step that takes long."""
        return self.report.stop is not None and self.report.stepping

    def delay(self, seconds: float) -> None:
        """Take all its times for later ones: they were by another clock."""
        self.since, self.heard, self.entered = self.since + seconds, self.heard + seconds, self.entered + seconds
        self.end.at, self.end.left = self.end.at + seconds, self.end.left + seconds

    def is_same_process(self, secret: str) -> bool:
        """Tell whether a secret is that of the process that has registered."""
        return hmac.compare_digest(self.registration.secret, digest_of(secret))

    def listed_state(self) -> tuple[object, ...]:
        """Return what a report may change in the list; a report that changes none of it is no news there."""
        stop, session = self.report.stop, self.report.session
        # A time limit, such as a lease, is told anew once a minute, and oftener towards its end.
        shown_stop = (stop.number, stop.reason, stop.where, stop.limit) if stop is not None and self.halted else None
        return self.state, shown_stop, session.engine if session else None, self.report.queued

    def info(self, *, began: float, seats: SeatCounts = NO_SEATS) -> RankInfo:
        """Return the rank as it is listed; ``began`` is the wall clock's time at monotonic zero."""
        said, report = self.registration, self.report
        return RankInfo(
            identity=said.identity,
            process=said.process,
            placement=said.placement,
            address=self.address,
            child=self.child,
            state=self.state,
            since=round(began + self._began(), 3),
            halt=self._halt(),
            end=self.end.listed(),
            engine=report.session.engine if report.session else None,
            queued=report.queued,
            seats=seats,
            waits_in=self.waits_in if self.state is RankState.RUNNING else "",
            passed=report.passed,
            will_stop=self.will_stop and self.is_live and not self.halted,
            epoch=said.epoch,
        )

    def _halt(self) -> ListedStop:
        stop = self.report.stop if self.halted else None
        if stop is None:
            return NO_STOP
        return ListedStop(
            number=stop.number or None,
            reason=stop.reason if self.report.state is RankState.STOPPED else None,
            where=stop.where if stop.where.file else None,
            error=stop.error,
            limit=stop.limit if self.is_live else None,
        )

    def _began(self) -> float:
        """Return when its state began."""
        if self.is_live:
            return self.heard if self.state is RankState.UNRESPONSIVE else self.since
        return self.end.at


def digest_of(secret: str) -> str:
    """Return what is kept of a process's secret: brokers tell each other digests, and no secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


REPAINT_SECONDS = 0.1
"""Least seconds between two repaints of a rank: ten screens a second are as many as a person can follow."""


@dataclass(slots=True, eq=False)
class RankLink:
    """A rank's connection; ``rank`` is None before it registered, and after a newer connection took over.

    If a guard is at the other end, ``guard_of`` is the key of its rank, ``finding`` is what it has said last, and
    ``asks`` are the questions that it has not answered.
    """

    connection: RankPeer
    bearer: Bearer = ANY_RANK
    rank: RankRecord | None = None
    guard_of: str | None = None
    finding: Finding | None = None
    asks: dict[int, Ask] = field(default_factory=dict)
    repaints: TokenBucket = field(default_factory=lambda: TokenBucket(0.0, 1 / REPAINT_SECONDS, 1))
    repaint_is_due: bool = False
