"""The process as a rank: the object that connects the link, the one current stop and the debuggers.

The broker's messages are handled in :mod:`dbg_agent.rank.from_broker`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from dbg_agent.debuggers.debuggers import Debuggers
from dbg_agent.debuggers.position import FrameSelector, Position
from dbg_agent.debuggers.workplace import UserBreakpoints
from dbg_agent.launch.this_process import Identity
from dbg_agent.link.link import Link, LinkOwner
from dbg_agent.link.outgoing import ProgramState, ToBroker
from dbg_agent.process.imports import loaded
from dbg_agent.process.log import Logger, open_log
from dbg_agent.questions.break_in import BreakIn
from dbg_agent.questions.questions import Questions
from dbg_agent.rank.from_broker import FromBroker
from dbg_agent.rank.holding import Holding
from dbg_agent.rank.membership import Membership
from dbg_agent.rank.stop_limits import StopLimits
from dbg_agent.rank.stopping import Stopping
from dbg_agent.settings import Settings
from dbg_agent.stop.inbox import Inbox, ProgramRaised
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import Halt, Stops
from dbg_wire.errors import DbgError
from dbg_wire.limits import CLOSE_SECONDS
from dbg_wire.messages import Goodbye, RankReport
from dbg_wire.records.ranks import WRONG_NUMBER
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.breakpoints.line_breakpoints import LineBreakpoints
    from dbg_agent.numbers.watch import Watch

logger = Logger("dbg_agent.rank")

WAITS_ON = "this stop waits as long as the broker's process lives"

GONE_SECONDS = 2.0
"""After this many seconds without an accepted connection, the broker's process is treated as ended, unless the
configured timeout for connecting is longer."""


class Rank:
    """A rank as the broker knows it. A process has one; it is created at the first stop or at ``install``."""

    def __init__(
        self, settings: Settings, parent: Identity | None = None, make_link: Callable[[LinkOwner], Link] = Link
    ) -> None:
        """Connect the parts; ``parent`` is the identity of the process that this one was forked from."""
        self.settings = settings
        self.program = ProgramState()
        self.membership = Membership(settings, parent)
        open_log(os.environ, self.address)
        logger.info("is a rank: %s", self.membership.identity.key)
        self.from_broker = FromBroker(settings, self.membership)
        self.link = link = make_link(self.from_broker)
        self.broker = broker = ToBroker(self.membership, link.outgoing, link.call_later)
        self.inbox = inbox = Inbox()
        self.interruptible = interruptible = Interruptible(link.call_later)
        self.halt = halt = Halt()
        self.stops = stops = Stops(broker.publish, self._end_stop)
        self.stopping = stopping = Stopping(broker, stops, inbox, halt)
        self.breakpoints = UserBreakpoints(broker.publish, self._served)
        self.debuggers = debuggers = Debuggers(
            settings,
            broker=broker,
            stops=stops,
            inbox=inbox,
            interruptible=interruptible,
            halt=halt,
            breakpoints=self.breakpoints,
            thread=stopping,
            put_output=link.outgoing.put_output,
            is_launched=lambda: self.membership.is_launched,
            kill=self.kill,
        )
        self.view = view = FrameSelector(halt, lambda: debuggers.open_one, broker.send)
        self.position = position = Position(halt, stops)
        self.break_in = break_in = BreakIn(broker, stops, view, position, stopping.stop)
        self.questions = questions = Questions(
            may_exec=settings.exec,
            broker=broker,
            stops=stops,
            inbox=inbox,
            interruptible=interruptible,
            halt=halt,
            view=view,
            position=position,
            debuggers=debuggers,
            break_in=break_in,
            kill=self.kill,
            watch=self.watch,
        )
        self._watch: Watch | None = None
        self.holding = holding = Holding(broker, stops, inbox, stopping, lambda: link.is_connected)
        self.limits = limits = StopLimits(broker, stops, inbox)
        stopping.start(
            program=self.program,
            membership=self.membership,
            reconnect=link.reconnect,
            fork_safety=link.fork_safety,
            view=view,
            debuggers=debuggers,
            break_in=break_in,
            questions=questions,
            holding=holding,
            limits=limits,
        )
        self.from_broker.start(
            link=link,
            broker=broker,
            stops=stops,
            inbox=inbox,
            halt=halt,
            view=view,
            position=position,
            debuggers=debuggers,
            break_in=break_in,
            stopping=stopping,
            holding=holding,
            limits=limits,
            questions=questions,
            report=self.rank_report,
            watch=self.watch,
        )

    def _end_stop(self) -> None:
        self.stopping.end()

    def _served(self, breakpoints: UserBreakpoints) -> LineBreakpoints:
        """Return the breakpoints that work without tracing. Their module is loaded here, because few ranks need it."""
        from dbg_agent.breakpoints.line_breakpoints import LineBreakpoints

        return LineBreakpoints(
            self.broker,
            self.stopping,
            breakpoints.lines,
            world_size=self.membership.identity.world_size or 1,
            is_halted=lambda: self.stops.is_halted,
            has_commands=self.debuggers.has_commands,
        )

    def watch(self) -> Watch:
        """Return the watch over the numbers of a training. Its modules are loaded here, because few ranks need it."""
        if self._watch is None:
            from dbg_agent.numbers.watch import Watch

            self._watch = Watch(
                broker=self.broker,
                is_connected=lambda: self.link.is_connected,
                connect=lambda: self.connect(self.settings, asked_for=True) is None,
                stop=lambda frame, about: self.stopping.stop(frame, WRONG_NUMBER, about=about),
                others=self.holding,
            )
        return self._watch

    # ---------------------------------------------------------------------------------------------------- identity

    @property
    def number(self) -> int:
        """The rank's global number."""
        return self.membership.number

    @property
    def address(self) -> str:
        """The rank's address for terminals."""
        return self.membership.address

    # -------------------------------------------------------------------------------------------- to the broker

    def rank_report(self) -> RankReport:
        """Return the complete current state of this rank."""
        generation, applied = self.inbox.settled()
        report = self.stops.report(breakpoints=self.breakpoints.count(), generation=generation, applied=applied)
        return report.replace(
            prompt=self.debuggers.console.prompt,
            arrivals=self.holding.counts.arrivals(),
            waits=self.holding.waiting,
            passed=self.program.passed,
        )

    # ---------------------------------------------------------------------------------------------- to the program

    def connect(self, settings: Settings, unanswered: float = math.inf, *, asked_for: bool = False) -> DbgError | None:
        """Start the link and wait for the broker according to ``settings``. Return the error, or None.

        The wait ends early if no broker has answered for ``unanswered`` seconds. A stop that the user has requested
        from outside (``asked_for``) waits as long as the broker's process lives. The process counts as alive while the
        kernel of its host accepts connections. Exceptions of the program's signal handlers are raised as ProgramRaised.
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
                self.broker.warn(f"{problem}; waiting for a broker")
                return self.link.wait_connected(None)
            if asked_for and settings.on_missing == "go-on" and self.link.is_served:
                self.program.waits_at_stop = True
                self.broker.warn(f"{problem}; {WAITS_ON}")
                return self.link.wait_connected(math.inf, max(settings.connect_timeout, GONE_SECONDS))
            return problem
        except BaseException as error:
            raise ProgramRaised(error) from None

    def kill(self) -> None:
        """Send a goodbye to the broker and kill this process as ``kill -9`` does. Not for the link's thread."""
        self.program.exit_status = -signal.SIGKILL
        self.close()
        # The module is not imported here, because a rank with a guard has already loaded it.
        guard = loaded("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.end()
        os.kill(os.getpid(), signal.SIGKILL)

    def _finalizes_mpi(self) -> bool:
        """Return True if mpi4py will call MPI_Finalize at the interpreter's end."""
        mpi, package = loaded("mpi4py.MPI"), loaded("mpi4py")
        if mpi is None or package is None or (self.program.exit_status or 0) < 0:
            return False
        with suppress(Exception):
            return bool(package.rc.finalize is not False and mpi.Is_initialized() and not mpi.Is_finalized())
        return False

    def close(self) -> None:
        """Send a goodbye and close the link, within about two seconds. Called at the end of the process."""
        error, frames = self.program.last_words or ("", ())
        finalizes = not error and self._finalizes_mpi()
        if finalizes:
            # A short program may end before the link is connected. The goodbye must still be sent, because the process
            # may later block forever in MPI_Finalize.
            self.link.wait_connected(self.settings.connect_timeout, CLOSE_SECONDS)
        status = self.program.exit_status
        self.broker.send(clamp(Goodbye, exit=status, error=error, finalizes=finalizes, frames=frames))
        self.link.close()
