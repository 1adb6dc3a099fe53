"""This process as a rank: the object that joins its link, its one current stop and its debuggers.

The broker's messages come in by :mod:`dbg_agent.rank.from_broker`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from dbg_agent.debuggers.debuggers import Debuggers
from dbg_agent.debuggers.position import Position, Viewpoint
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
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.breakpoints.line_breakpoints import LineBreakpoints

logger = Logger("dbg_agent.rank")

WAITS_ON = "this stop waits as long as the broker's process lives"

GONE_SECONDS = 2.0
"""Seconds in which no kernel takes a connection, after which the broker's process has ended, whatever the timeout."""


class Rank:
    """A rank as the broker knows it; one for a process, made at the first stop or at ``install``."""

    def __init__(
        self, settings: Settings, parent: Identity | None = None, make_link: Callable[[LinkOwner], Link] = Link
    ) -> None:
        """Join the parts; ``parent`` is the identity of the process that this one was forked from."""
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
        self.view = view = Viewpoint(halt, lambda: debuggers.open_one, broker.send)
        self.position = position = Position(halt, stops)
        self.break_in = break_in = BreakIn(broker, stops, view, position, stopping.stop)
        self.questions = questions = Questions(
            settings,
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
        )
        self.holding = holding = Holding(broker, stops, inbox, stopping, lambda: link.is_connected)
        self.limits = limits = StopLimits(broker, stops, inbox)
        stopping.begin(
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
        self.from_broker.begin(
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
        )

    def _end_stop(self) -> None:
        self.stopping.end()

    def _served(self, breakpoints: UserBreakpoints) -> LineBreakpoints:
        """Return what serves breakpoints without tracing; a rank without a question about them does not load it."""
        from dbg_agent.breakpoints.line_breakpoints import LineBreakpoints

        return LineBreakpoints(
            self.broker,
            self.stopping,
            breakpoints.lines,
            world_size=self.membership.identity.world_size or 1,
            is_halted=lambda: self.stops.is_halted,
            has_commands=self.debuggers.has_commands,
        )

    # ---------------------------------------------------------------------------------------------------- identity

    @property
    def number(self) -> int:
        """Return the rank's global number."""
        return self.membership.number

    @property
    def address(self) -> str:
        """Return the rank's address for terminals."""
        return self.membership.address

    # -------------------------------------------------------------------------------------------- to the broker

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
        error, frames = self.program.last_words or ("", ())
        finalizes = not error and self._finalizes_mpi()
        if finalizes:
            # A short program may end before it is connected, and its process then wait for others for ever.
            self.link.wait_connected(self.settings.connect_timeout, CLOSE_SECONDS)
        status = self.program.exit_status
        self.broker.send(fitted(Goodbye, exit=status, error=error, finalizes=finalizes, frames=frames))
        self.link.close()
