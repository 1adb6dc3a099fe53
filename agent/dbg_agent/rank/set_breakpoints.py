"""The answer to a question about breakpoints, and what the rank's breakpoints need of it.

Nothing of this is loaded before the first question.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dbg_agent.breakpoints.line_breakpoint import LogPace
from dbg_agent.breakpoints.wishes import BreakpointHost, LineBreakpoints
from dbg_agent.own_threads import BoundedThreads
from dbg_agent.rank.with_breakpoints import RankWithBreakpoints
from dbg_wire.errors import printable
from dbg_wire.messages import Ask, Kind, Notice
from dbg_wire.records.line_breakpoints import BreakpointsWish
from dbg_wire.records.record import fitted

MAX_WAITING = 16
"""Questions about breakpoints that may wait for one another in a running rank; more are refused."""

_threads = BoundedThreads("dbg-agent-breakpoints", MAX_WAITING)


class _LogOutput:
    """The job's output and the broker, which get the texts of log points."""

    def __init__(self, rank: RankWithBreakpoints) -> None:
        self._rank = rank
        self._pace = LogPace(rank.membership.identity.world_size or 1)

    def print(self, text: str) -> None:
        """Print a text; never raise."""
        try:
            print(text, flush=True)  # noqa: T201 - the job's output is where a user looks for it
        except Exception as error:
            self._rank.warn(f"a log point can't print ({type(error).__name__})")
        shown = self._pace.line(printable(text), time.monotonic())
        if shown is not None:
            self._report(shown)
        elif self._pace.is_last_due():
            self._rank.call_later(1.0, self._report_last)

    def _report_last(self) -> None:
        last = self._pace.last()
        if last is not None:
            self._report(last)

    def _report(self, text: str) -> None:
        self._rank.send(fitted(Notice, text=text, is_log=True))


def _host_of(rank: RankWithBreakpoints) -> BreakpointHost:
    return BreakpointHost(
        number=lambda: rank.number,
        warn=rank.warn,
        stop=lambda frame: rank.stopping.stop(frame, "breakpoint", before_line=True),
        has_just_halted=rank.stopping.has_just_halted,
        call_later=rank.call_later,
        halted_thread=lambda: rank.stops.owner,
        print_log=_LogOutput(rank).print,
        has_commands=lambda number: any(
            getattr(one.tracing, "commands", {}).get(number) for one in rank.debuggers.loaded
        ),
    )


class Turn:
    """A question that either the stopped thread or a thread of its own answers, the one that comes first."""

    def __init__(self, rank: RankWithBreakpoints, ask: Ask, answer: Callable[..., None]) -> None:
        self._question = (rank, ask, answer)
        self._turns = [None]

    def here(self) -> None:
        """Answer in the stopped thread."""
        if self._is_mine():
            _answer_here(*self._question)

    def beside(self) -> None:
        """Answer in a thread of its own."""
        if self._is_mine():
            answer_beside(*self._question)

    def _is_mine(self) -> bool:
        try:
            # Of two threads only one gets what a list holds.
            self._turns.pop()
        except IndexError:
            return False
        return True


def _answer_here(rank: RankWithBreakpoints, ask: Ask, answer: Callable[..., None]) -> None:
    """Grant the wish of a question in the stopped thread, draw the breakpoints, and answer."""
    if _grant(rank, ask, answer):
        if rank.breakpoints.are_traced:
            # A breakpoint needs a debugger that traces for it when the rank goes on.
            rank.debuggers.have_one()
        engine = rank.stopping.open_engine()
        if engine is not None:
            engine.show_breakpoints()
            rank.stopping.show_source_again()


def answer_beside(rank: RankWithBreakpoints, ask: Ask, answer: Callable[..., None]) -> None:
    """Grant the wish of a question while the program runs, in a thread of its own: it may read files."""

    def grant() -> None:
        try:
            _grant(rank, ask, answer)
        except Exception as error:
            answer(ask, Kind.ERROR, f"can't be answered ({type(error).__name__}: {printable(str(error))})")

    if not _threads.start(grant):
        answer(ask, Kind.ERROR, f"{MAX_WAITING} questions about its breakpoints wait already")


def _grant(rank: RankWithBreakpoints, ask: Ask, answer: Callable[..., None]) -> bool:
    """Grant a wish and answer; tell whether it wished anything."""
    wish = ask.inquiry if isinstance(ask.inquiry, BreakpointsWish) else BreakpointsWish()
    known = rank.breakpoints
    if known.wished is None:
        known.wished = LineBreakpoints(_host_of(rank), known.lines)
    states = known.wished.grant(wish)
    if wish.set or wish.clear:
        known.look()
    answer(ask, Kind.VALUE, f"{len(states)} breakpoints", rows=tuple(states))
    return bool(wish.set or wish.clear)
