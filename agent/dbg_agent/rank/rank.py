"""This process as a rank: the object that joins its link, its one current stop and its debuggers.

The broker's messages come in by :mod:`dbg_agent.rank.from_broker`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from dbg_agent.debuggers.debuggers import Debuggers, UserBreakpoints
from dbg_agent.launch.this_process import Identity
from dbg_agent.link.link import Link, LinkOwner
from dbg_agent.process.imports import loaded
from dbg_agent.process.log import Logger, open_log
from dbg_agent.process.stderr import say
from dbg_agent.questions.break_in import BreakIn
from dbg_agent.questions.questions import Questions
from dbg_agent.rank.from_broker import FromBroker
from dbg_agent.rank.holding import Holding
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.stop_limits import StopLimits
from dbg_agent.rank.stopping import Stopping
from dbg_agent.settings import Settings
from dbg_agent.stop.inbox import Inbox, Loss, ProgramRaised
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import Stops
from dbg_wire.codec import LogForm
from dbg_wire.errors import DbgError
from dbg_wire.limits import CLOSE_SECONDS
from dbg_wire.messages import Discarded, Goodbye, Message, RankReport
from dbg_wire.records.ranks import IN_FINALIZE, Place
from dbg_wire.records.record import fitted

logger = Logger("dbg_agent.rank")

WAITS_ON = "this stop waits as long as the broker's process lives"

GONE_SECONDS = 2.0
"""Seconds in which no kernel takes a connection, after which the broker's process has ended, whatever the timeout."""

MAX_WARNINGS = 20
"""Warnings that a rank may write to the job's stderr in the life of a process, each once."""


@dataclass(slots=True)
class ProgramState:
    """What became of the program beside its present stop."""

    missing: DbgError | None = None
    """Why the last stop found no broker; None if it found one."""
    waits_at_stop: bool = False
    """Whether a stop waits, or has waited, for a broker that doesn't answer: it has said so."""
    passed: str = ""
    """The stop that the program has passed without a broker since its last one, and why; the end of a sentence."""
    exit_status: int | None = None
    last_words: tuple[str, tuple[Place, ...]] | None = None
    """An uncaught exception as a text, and its traceback; the exception itself would keep all its frames alive."""
    warned: set[str] = field(default_factory=set)
    """The warnings on the job's stderr so far."""


class Rank:
    """A rank as the broker knows it; one for a process, made at the first stop or at ``install``."""

    def __init__(
        self, settings: Settings, parent: Identity | None = None, make_link: Callable[[LinkOwner], Link] = Link
    ) -> None:
        """Join the parts; ``parent`` is the identity of the process that this one was forked from."""
        self.settings = settings
        self.program = ProgramState()
        self.membership = Membership(self, parent)
        open_log(os.environ, self.address)
        logger.info("is a rank: %s", self.membership.identity.key)
        self.from_broker = FromBroker(self)
        self.link = make_link(self.from_broker)
        self.inbox = Inbox()
        self.interruptible = Interruptible(self.link.call_later)
        self.stopping = Stopping(self)
        self.breakpoints = UserBreakpoints(self.publish)
        self.stops = Stops(self.publish, self.stopping.end)
        self.debuggers = Debuggers(self)
        self.break_in = BreakIn(self)
        self.questions = Questions(self)
        self.holding = Holding(self)
        self.limits = StopLimits(self)

    # ---------------------------------------------------------------------------------------------------- identity

    @property
    def number(self) -> int:
        """Return the rank's global number."""
        return self.membership.identity.rank

    @property
    def address(self) -> str:
        """Return the rank's address for terminals."""
        return self.membership.address

    # -------------------------------------------------------------------------------------------- to the broker

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds; never if the link does not run."""
        self.link.call_later(seconds, call)

    def send(self, message: Message) -> None:
        """Queue a message, to be sent as soon as there is a connection."""
        from dbg_wire.codec import encode

        logger.debug("says %s", LogForm(message))
        self.link.outgoing.put_message(encode(message))

    def publish(self) -> None:
        """Queue a report of this rank's state."""
        self.link.outgoing.put_report()

    def report_loss(self, loss: Loss | None) -> None:
        """Tell which keys the debugger will never get, if any."""
        if loss is not None:
            self.send(
                fitted(Discarded, generation=loss.generation, offset=loss.offset, count=loss.count, reason=loss.reason)
            )

    def rank_report(self) -> RankReport:
        """Return the whole state of this rank now."""
        generation, applied = self.inbox.settled()
        report = self.stops.report(breakpoints=self.breakpoints.count(), generation=generation, applied=applied)
        return report.replace(
            prompt=self.debuggers.console.prompt,
            arrivals=self.holding.counts.arrivals(),
            waits=self.holding.waiting,
            passed=self.program.passed,
        )

    # ---------------------------------------------------------------------------------------------- to the program

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""
        if text in self.program.warned or len(self.program.warned) >= MAX_WARNINGS:
            return
        self.program.warned.add(text)
        logger.info("warns: %s", text)
        say(f"{self.address}: {text}")

    def connect(self, settings: Settings, unanswered: float = math.inf, *, asked_for: bool = False) -> DbgError | None:
        """Start the link and wait for the broker as ``settings`` say; return what was wrong, or None.

        The wait ends early if no broker has answered for ``unanswered`` seconds. A stop that the user has ``asked_for``
        from outside waits as long as the broker's process lives, which its kernel shows by taking connections. Raise
        ProgramRaised with an exception of the program's signal handlers.
        """
        self.program.missing = self._connect(settings, unanswered, asked_for=asked_for)
        return self.program.missing

    def _connect(self, settings: Settings, unanswered: float, *, asked_for: bool) -> DbgError | None:
        self.link.start()
        try:
            problem = self.link.wait_connected(settings.connect_timeout, unanswered)
            if problem is None:
                return None
            if settings.on_missing == "wait":
                self.warn(f"{problem}; waiting for a broker")
                return self.link.wait_connected(None)
            if asked_for and settings.on_missing == "go-on" and self.link.is_served:
                self.program.waits_at_stop = True
                self.warn(f"{problem}; {WAITS_ON}")
                return self.link.wait_connected(math.inf, max(settings.connect_timeout, GONE_SECONDS))
            return problem
        except BaseException as error:
            raise ProgramRaised(error) from None

    def kill(self) -> None:
        """Say goodbye to the broker and end this process as by ``kill -9``; not in the link's thread."""
        self.program.exit_status = -signal.SIGKILL
        self.close()
        # The module is loaded only if a guard was started.
        guard = loaded("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.end()
        os.kill(os.getpid(), signal.SIGKILL)

    def _finalizes_mpi(self) -> bool:
        """Tell whether mpi4py calls MPI_Finalize once the interpreter has ended."""
        mpi, package = loaded("mpi4py.MPI"), loaded("mpi4py")
        if mpi is None or package is None or (self.program.exit_status or 0) < 0:
            return False
        with suppress(Exception):
            return bool(package.rc.finalize is not False and mpi.Is_initialized() and not mpi.Is_finalized())
        return False

    def close(self) -> None:
        """Say goodbye and end the link, within about two seconds; at the end of the process."""
        if self.program.last_words is None:
            finalizes = self._finalizes_mpi()
            if finalizes:
                # A short program may end before it is connected, and its process then wait for others for ever.
                self.link.wait_connected(self.settings.connect_timeout, CLOSE_SECONDS)
            self.send(fitted(Goodbye, exit=self.program.exit_status, detail=IN_FINALIZE if finalizes else ""))
        else:
            detail, frames = self.program.last_words
            self.send(fitted(Goodbye, exit=self.program.exit_status, detail=detail, frames=frames))
        self.link.close()
