"""What the broker knows of one rank, and how it is listed."""

from __future__ import annotations

import hmac
import logging
from dataclasses import dataclass, field

from dbg_broker.ranks.memory import weight
from dbg_wire.errors import printable
from dbg_wire.messages import Pulse, RankReport, Register
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.ranks import DIED, LIVE_STATES, Place, RankInfo, RankState
from dbg_wire.records.record import decode_record, encode_record

logger = logging.getLogger("dbg_broker")

FamilyName = tuple[str, str, str, int]
"""Job, run, host and number: what a rank has in common with its children."""


@dataclass(slots=True)
class RankEnd:
    """How a rank has ended or is about to, as far as that is known: it becomes known in parts."""

    at: float = 0.0
    """When it was lost or exited."""
    left: float = 0.0
    """When its connection ended, or when it said goodbye."""
    exit: int | None = None
    died: bool = False
    """Whether its process was found gone without a goodbye."""
    detail: str = ""
    """What ended it, in a sentence."""
    signal: int | None = None
    """Which signal ends or ended it, as its guard says."""
    core: str = ""
    """Where its core is, in words."""
    cause: str = ""
    """Who sent that signal, as the end of a sentence; empty if nobody knows."""
    signal_told: str = ""
    """What :attr:`detail` says of the signal, which may become known better."""


@dataclass(slots=True, eq=False)
class RankRecord:
    """What is known of one rank.

    ``since`` is when what it reports began, ``heard`` when it last said anything, and ``entered`` when it first did.
    """

    said: Register
    report: RankReport
    state: RankState
    child: int | None
    since: float
    heard: float
    entered: float
    end: RankEnd = field(default_factory=RankEnd)
    waits_in: str = ""
    """The collective that its step was in at its last pulse; empty unless it steps."""
    _place: Place | None = None
    _frames: tuple[Place, ...] = ()
    _unread: str = ""

    @property
    def key(self) -> str:
        """Return the rank's identity."""
        return self.said.key

    @property
    def address(self) -> str:
        """Return ``host:rank`` or ``host:rank.child``; of a stock session ``host:?number``."""
        child = "" if self.child is None else f".{self.child}"
        return f"{self.said.host}:{'?' if self.is_stock else ''}{self.said.rank}{child}"

    @property
    def is_stock(self) -> bool:
        """Tell whether it is a session of a stock debugger: nobody knows its process, and its number is no rank's."""
        return self.said.pid == 0

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

    def keep_stack(self, frames: tuple[Place, ...]) -> int:
        """Keep the stack of an answer as that of a pulse, since none follows a question; return its characters."""
        self._unread = encode_record(Pulse(where=frames[-1], frames=frames))
        return len(self._unread)

    def take_pulse(self, pulse: Pulse) -> None:
        """Take note of where it is."""
        self._unread, self._place, self._frames = "", pulse.where, pulse.frames

    def _read_pulse(self) -> None:
        if not self._unread:
            return
        text, self._unread = self._unread, ""
        try:
            self.take_pulse(decode_record(Pulse, text))
        except InvalidMessage as error:
            logger.info("the stack of %s is not known: %s", printable(self.key), printable(str(error)))

    @property
    def is_live(self) -> bool:
        """Tell whether its connection is up."""
        return self.state in LIVE_STATES

    @property
    def family(self) -> FamilyName:
        """Return what a rank has in common with its children."""
        return family_of(self.said)

    @property
    def halted(self) -> bool:
        """Tell whether it last reported a stop or a hold."""
        return self.report.state is not RankState.RUNNING

    @property
    def steps(self) -> bool:
        """Tell whether its stop's thread runs to the end of a step that takes long."""
        return self.report.stop is not None and self.report.stepping

    def is_same_process(self, secret: str) -> bool:
        """Tell whether a secret is that of the process that has registered."""
        return hmac.compare_digest(self.said.secret.encode(), secret.encode())

    def listed_state(self) -> tuple[object, ...]:
        """Return what a report may change in the list; a report that changes none of it is no news there."""
        stop, session = self.report.stop, self.report.session
        shown_stop = (stop.number, stop.reason, stop.where) if stop is not None and self.halted else None
        return self.state, shown_stop, session.engine if session else None, self.report.queued

    def weight(self) -> int:
        """Return about how many bytes it occupies."""
        return weight(self.said, self.report, self.frames, self.place, self.end.detail, self.end.core, self.end.cause)

    def info(self, *, epoch: float, driver: str | None, watchers: int, driver_silent: bool = False) -> RankInfo:
        """Return the rank as it is listed; ``epoch`` is the wall clock's time at monotonic zero."""
        said, report, end = self.said, self.report, self.end
        stop = report.stop if self.halted else None
        return RankInfo(
            key=self.key,
            address=self.address,
            job=said.job,
            run=said.run,
            host=said.host,
            rank=said.rank,
            local_rank=said.local_rank,
            world_size=said.world_size,
            child=self.child,
            pid=said.pid,
            script=said.script,
            directory=said.directory,
            state=self.state,
            reason=DIED if end.died else self._reason(),
            # A stock debugger may not say where it is.
            where=stop.where if stop and stop.where.file else None,
            engine=report.session.engine if report.session else None,
            queued=report.queued,
            since=round(epoch + self._began(), 3),
            driver=driver,
            watchers=watchers,
            driver_silent=driver_silent,
            exit=end.exit,
            detail=end.detail or (stop.detail if stop else ""),
            coordinates=said.coordinates,
            limit=stop.limit if stop and not end.detail else "",
            limit_seconds=stop.limit_seconds if stop and not end.detail else None,
            waits_in=self.waits_in if self.state is RankState.RUNNING else "",
            release=said.release,
            python=said.python,
            # A stock debugger has one number for all its stops.
            stop=stop.number if stop and not self.is_stock else None,
            passed=report.passed,
        )

    def _began(self) -> float:
        """Return when its state began."""
        if self.is_live:
            return self.heard if self.state is RankState.UNRESPONSIVE else self.since
        return self.end.at

    def _reason(self) -> str | None:
        """Return why it is stopped; a held rank is not."""
        stop = self.report.stop
        return stop.reason if stop is not None and self.report.state is RankState.STOPPED else None


def family_of(said: Register) -> FamilyName:
    """Return the family of the rank that registers with this message."""
    return said.job, said.run, said.host, said.rank
