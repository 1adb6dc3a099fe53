"""Record of one rank, its connection, and its line in the list."""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass, field

from dbg_broker.home.tokens import ANY_RANK, Bearer
from dbg_broker.relay.relay import RankPeer
from dbg_broker.timers import TokenBucket
from dbg_wire.errors import printable
from dbg_wire.messages import Ask, Finding, ProbeReply, RankReport, Register
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
"""Job and run. A launcher starts and ends all ranks of a run together."""

HostName = tuple[str, str, str]
"""Job, run and host. Only ranks with the same three may be parents and children of each other."""


@dataclass(slots=True)
class RankEnd:
    """How a rank has ended or is about to end, as far as known: the parts become known one by one."""

    at: float = 0.0
    """Time of the latest change to lost or exited."""
    left: float = 0.0
    """Time when the live rank's connection ended, or when the rank sent its goodbye."""
    exit: int | None = None
    kind: EndKind = EndKind.GOODBYE
    error: str = ""
    """Exception that ended it."""
    signal: int | None = None
    """Signal that ends or ended the rank, as reported by its guard."""
    status: int | None = None
    """Exit status of a rank that ended by itself without a goodbye, as reported by its guard."""
    cause: str = ""
    """Sender of the signal, as the last part of a sentence; empty if it is unknown."""
    note: str = ""
    """Additional note of its guard."""

    def listed(self) -> End:
        """Return the part that the list of ranks shows."""
        by_signal = self.signal is not None and self.exit == -self.signal
        cause, note = (self.cause, self.note) if by_signal else ("", "")
        return End(kind=self.kind, exit=self.exit, error=self.error, cause=cause, note=note)


@dataclass(slots=True, eq=False)
class RankRecord:
    """Everything known about one rank.

    ``since`` is the start of the reported state, ``heard`` the time of its last message, and ``entered`` the time of
    its first message. The registration contains only the digest of the process's secret, see :func:`digest_of`. A
    broker that shuts down sends the records of ended and lost ranks to another broker.
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
    """Collective that the rank's step was executing at its last pulse (reply to a probe); empty without a step."""
    will_stop: bool = False
    """Whether an interrupt is pending."""
    _place: Place | None = None
    _frames: tuple[Place, ...] = ()
    _unread: str = ""

    @property
    def key(self) -> str:
        """The rank's key."""
        return self.registration.identity.key

    @property
    def identity(self) -> RankIdentity:
        """Job, run and number of the rank."""
        return self.registration.identity

    @property
    def run(self) -> RunName:
        """Job and run of the rank."""
        return self.identity.job, self.identity.run

    @property
    def process(self) -> RankProcess:
        """The rank's process as it registered."""
        return self.registration.process

    @property
    def address(self) -> str:
        """``host:rank`` or ``host:rank.child``; ``host:?number`` if the process is not a rank of a job."""
        child = "" if self.child is None else f".{self.child}"
        mark = "?" if self.registration.placement is None else ""
        return f"{self.identity.host}:{mark}{self.identity.rank}{child}"

    @property
    def place(self) -> Place | None:
        """Place of the rank at its last reply to a probe."""
        self._read_pulse()
        return self._place

    @property
    def frames(self) -> tuple[Place, ...]:
        """Last known stack, outermost frame first."""
        self._read_pulse()
        return self._frames

    @frames.setter
    def frames(self, frames: tuple[Place, ...]) -> None:
        self._read_pulse()
        self._frames = frames

    def keep_pulse(self, text: str) -> None:
        """Store a reply to a probe undecoded: it is decoded when its stack is requested, which is rare."""
        self._unread = text

    def note_pulse(self, pulse: ProbeReply) -> None:
        """Store the place and the stack of a reply to a probe."""
        self._unread, self._place, self._frames = "", pulse.where, pulse.frames

    def _read_pulse(self) -> None:
        if not self._unread:
            return
        text, self._unread = self._unread, ""
        try:
            self.note_pulse(decode_record(ProbeReply, text))
        except InvalidMessage as error:
            logger.info("can't decode the stack of %s: %s", printable(self.key), printable(str(error)))

    @property
    def is_live(self) -> bool:
        """Whether the rank's connection is up."""
        return self.state in LIVE_STATES

    @property
    def host(self) -> HostName:
        """Job, run and host of the rank."""
        return (*self.run, self.identity.host)

    @property
    def numbering(self) -> Numbering:
        """Source of the rank's number."""
        placement = self.registration.placement
        return Numbering.LAUNCHER if placement is None else placement.numbering

    @property
    def halted(self) -> bool:
        """Whether the rank's latest report says that it is stopped or held."""
        return self.report.state is not RankState.RUNNING

    @property
    def steps(self) -> bool:
        """Whether the stopped thread is in the middle of a step that takes long."""
        return self.report.stop is not None and self.report.stepping

    def delay(self, seconds: float) -> None:
        """Move all times by some seconds, to convert them from another broker's clock to this one's."""
        self.since, self.heard, self.entered = self.since + seconds, self.heard + seconds, self.entered + seconds
        self.end.at, self.end.left = self.end.at + seconds, self.end.left + seconds

    def is_same_process(self, secret: str) -> bool:
        """Return True if a secret belongs to the process that registered."""
        return hmac.compare_digest(self.registration.secret, digest_of(secret))

    def listed_state(self) -> tuple[object, ...]:
        """Return the listed values that a report can change. While they stay equal, the list does not change."""
        stop, session = self.report.stop, self.report.session
        # The listed stop includes its limit, such as a lease. A rank reports the limit once a minute, and more often
        # shortly before it ends.
        shown_stop = (stop.number, stop.reason, stop.where, stop.limit) if stop is not None and self.halted else None
        return self.state, shown_stop, session.engine if session else None, self.report.queued

    def info(self, *, began: float, seats: SeatCounts = NO_SEATS) -> RankInfo:
        """Return the rank as it is listed; ``began`` is the wall clock's time when the monotonic clock was zero."""
        registration, report = self.registration, self.report
        return RankInfo(
            identity=registration.identity,
            process=registration.process,
            placement=registration.placement,
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
            epoch=registration.epoch,
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
        """Return the start of its state."""
        if self.is_live:
            return self.heard if self.state is RankState.UNRESPONSIVE else self.since
        return self.end.at


def digest_of(secret: str) -> str:
    """Return the digest of a process's secret: brokers store and exchange digests only, never the secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


REPAINT_SECONDS = 0.1
"""Minimum interval between two repaints of a rank, in seconds: a person can follow ten screens a second at most."""


@dataclass(slots=True, eq=False)
class RankLink:
    """Connection of a rank; ``rank`` is None before it registered, and after a newer connection took over.

    If the peer is a guard, ``guard_of`` is the key of its rank, ``finding`` its latest finding, and ``asks`` its
    unanswered questions.
    """

    connection: RankPeer
    bearer: Bearer = ANY_RANK
    rank: RankRecord | None = None
    guard_of: str | None = None
    finding: Finding | None = None
    asks: dict[int, Ask] = field(default_factory=dict)
    repaints: TokenBucket = field(default_factory=lambda: TokenBucket(0.0, 1 / REPAINT_SECONDS, 1))
    repaint_is_due: bool = False
