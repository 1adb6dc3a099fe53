"""This process as a rank: the object that joins its link, its one current stop and its debuggers.

The broker's messages come in by :mod:`dbg_agent.rank.from_broker`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from dbg_agent.engines.console import Console
from dbg_agent.launch.this_process import Identity
from dbg_agent.link.link import Link, LinkOwner
from dbg_agent.log import Logger, Shown, open_log
from dbg_agent.rank.break_in import BreakIn
from dbg_agent.rank.debuggers import Debuggers
from dbg_agent.rank.from_broker import FromBroker
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.position import Position
from dbg_agent.rank.questions import Questions
from dbg_agent.rank.stopping import Stopping
from dbg_agent.rank.user_breakpoints import UserBreakpoints
from dbg_agent.rank.viewpoint import Viewpoint
from dbg_agent.settings import Settings
from dbg_agent.stderr import say
from dbg_agent.stop.busy import Busy
from dbg_agent.stop.crash import Crash
from dbg_agent.stop.inbox import Inbox, ProgramRaised
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.loaded_sources import Loaded
from dbg_agent.stop.stops import Stops
from dbg_agent.stop.terminal import Terminal
from dbg_agent.stop.typed_keys import Loss
from dbg_agent.waiting.deadlines import Deadlines
from dbg_agent.waiting.holding import Holding
from dbg_agent.waiting.lease import Lease
from dbg_agent.when_imported import loaded
from dbg_wire.errors import DbgError
from dbg_wire.limits import CLOSE_SECONDS
from dbg_wire.messages import Discarded, Goodbye, Message, RankReport
from dbg_wire.records.ranks import IN_FINALIZE, Place
from dbg_wire.records.record import fitted

logger = Logger("dbg_agent.rank")

GONE_SECONDS = 2.0
"""Seconds in which no kernel takes a connection, after which the broker's process has ended, whatever the timeout."""

MAX_WARNINGS = 20
"""Warnings that a rank may write to the job's stderr in the life of a process, each once."""


class Rank:
    """A rank as the broker knows it; one for a process, made at the first stop or at ``install``."""

    def __init__(
        self, settings: Settings, parent: Identity | None = None, make_link: Callable[[LinkOwner], Link] = Link
    ) -> None:
        """Join the parts; ``parent`` is the identity of the process that this one was forked from."""
        self.settings = settings
        self.reads_rc = settings.rc
        self.missing: DbgError | None = None
        """Why the last stop found no broker; None if it found one."""
        self.waits_at_stop = False
        """Whether a stop waits, or has waited, for a broker that doesn't answer: it has said so."""
        self.passed = ""
        """The stop that the program has passed without a broker since its last one, and why; the end of a sentence."""
        self.exit_status: int | None = None
        self.last_words: tuple[str, tuple[Place, ...]] | None = None
        """An uncaught exception as a text, and its traceback; the exception itself would keep all its frames alive."""
        self.warned: set[str] = set()
        """The warnings on the job's stderr so far."""
        self.membership = Membership(self, parent)
        open_log(os.environ, self.address)
        logger.info("is a rank: %s", self.identity.key)
        self.from_broker = FromBroker(self)
        self.link = make_link(self.from_broker)
        self.inbox = Inbox()
        self.terminal = Terminal(self.link.outgoing.put_output)
        self.interruptible = Interruptible(self.link.call_later)
        self.loaded = Loaded()
        self.breakpoints = UserBreakpoints(self.loaded, self.publish)
        self.stopping = Stopping(self)
        self.stops = Stops(self.publish, self.stopping.end)
        self.busy = Busy(self)
        self.position = Position(self.stops, self.stopping)
        self.console = Console(self)
        self.debuggers = Debuggers(self)
        self.break_in = BreakIn(self)
        self.questions = Questions(self)
        self.holding = Holding(self)
        self.lease = Lease(self)
        self.deadlines = Deadlines(self, lambda: self.lease.longest_ends)

    # ---------------------------------------------------------------------------------------------------- identity

    @property
    def identity(self) -> Identity:
        """Return the identity of this process, as it was registered last."""
        return self.membership.identity

    @property
    def number(self) -> int:
        """Return the rank's global number."""
        return self.membership.identity.rank

    @property
    def address(self) -> str:
        """Return the rank's address for terminals."""
        return self.membership.address

    @property
    def is_launched(self) -> bool:
        """Tell whether a launcher started this rank, and would end the others with it."""
        return self.membership.is_launched

    @property
    def is_watched(self) -> bool:
        """Tell whether the rank is stopped, or a terminal looks at it."""
        return self.stops.current[0] is not None or self.terminal.viewers > 0

    @property
    def view(self) -> Viewpoint:
        """Return which frame of the current stop is looked at."""
        return self.stopping.view

    # -------------------------------------------------------------------------------------------- to the broker

    @property
    def is_connected(self) -> bool:
        """Tell whether a broker knows this rank now."""
        return self.link.is_connected

    def reconnect(self) -> None:
        """Register the rank anew."""
        self.link.reconnect()

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds; never if the link does not run."""
        self.link.call_later(seconds, call)

    def send(self, message: Message) -> None:
        """Queue a message, to be sent as soon as there is a connection."""
        from dbg_wire.codec import encode

        logger.debug("says %s", Shown(message))
        self.link.outgoing.put_message(encode(message))

    def publish(self) -> None:
        """Queue a report of this rank's state."""
        self.link.outgoing.put_report()

    def tell_loss(self, loss: Loss | None) -> None:
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
            prompt=self.console.prompt,
            arrivals=self.holding.counts.arrivals(),
            waits=self.holding.waiting,
            user_breakpoints=self.breakpoints.known,
            passed=self.passed,
        )

    # ---------------------------------------------------------------------------------------------- to the program

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""
        if text in self.warned or len(self.warned) >= MAX_WARNINGS:
            return
        self.warned.add(text)
        logger.info("warns: %s", text)
        say(f"{self.address}: {text}")

    def connect(self, settings: Settings, unanswered: float = math.inf, *, asked_for: bool = False) -> DbgError | None:
        """Start the link and wait for the broker as ``settings`` say; return what was wrong, or None.

        The wait ends early if no broker has answered for ``unanswered`` seconds. A stop that the user has ``asked_for``
        from outside waits as long as the broker's process lives, which its kernel shows by taking connections. Raise
        ProgramRaised with an exception of the program's signal handlers.
        """
        self.missing = self._connect(settings, unanswered, asked_for=asked_for)
        return self.missing

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
                self.waits_at_stop = True
                self.warn(f"{problem}; this stop waits as long as the broker's process lives")
                return self.link.wait_connected(math.inf, max(settings.connect_timeout, GONE_SECONDS))
            return problem
        except BaseException as error:
            raise ProgramRaised(error) from None

    def stop(
        self,
        frame: FrameType,
        reason: str,
        engine_wanted: str | None = None,
        *,
        site: str | None = None,
        lease: float | None = None,
        detail: str = "",
        crash: Crash | None = None,
        before_line: bool = False,
    ) -> None:
        """Stop the calling thread at this frame until it is let go."""
        self.stopping.stop(
            frame,
            reason,
            engine_wanted,
            site=site,
            lease=lease,
            detail=detail,
            crash=crash,
            before_line=before_line,
        )

    def kill(self) -> None:
        """Say goodbye to the broker and end this process as by ``kill -9``; not in the link's thread."""
        self.exit_status = -signal.SIGKILL
        self.close()
        # The module is loaded only if a guard was started.
        guard = loaded("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.end()
        os.kill(os.getpid(), signal.SIGKILL)

    def _finalizes_mpi(self) -> bool:
        """Tell whether mpi4py calls MPI_Finalize once the interpreter has ended."""
        mpi, package = loaded("mpi4py.MPI"), loaded("mpi4py")
        if mpi is None or package is None or (self.exit_status or 0) < 0:
            return False
        with suppress(Exception):
            return bool(package.rc.finalize is not False and mpi.Is_initialized() and not mpi.Is_finalized())
        return False

    def close(self) -> None:
        """Say goodbye and end the link, within about two seconds; at the end of the process."""
        if self.last_words is None:
            finalizes = self._finalizes_mpi()
            if finalizes:
                # A short program may end before it is connected, and its process then wait for others for ever.
                self.link.wait_connected(self.settings.connect_timeout, CLOSE_SECONDS)
            self.send(fitted(Goodbye, exit=self.exit_status, detail=IN_FINALIZE if finalizes else ""))
        else:
            detail, frames = self.last_words
            self.send(fitted(Goodbye, exit=self.exit_status, detail=detail, frames=frames))
        self.link.close()
