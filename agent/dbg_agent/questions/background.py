"""Answers to questions about source and breakpoints, from background threads while the program runs.

Nothing here is loaded before the first such question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dbg_agent.process.threads import BoundedThreads
from dbg_agent.values.source_text import NotLoaded, source_text
from dbg_wire.errors import error_line
from dbg_wire.messages import Ask, Kind
from dbg_wire.records.inspection import BreakpointChanges, Inspection, InspectionKind, InspectionRecord, cut_to_fit

if TYPE_CHECKING:
    from dbg_agent.debuggers.workplace import UserBreakpoints

Answer = Callable[..., None]
"""Sends the answer to a question."""

MAX_SOURCE_QUESTIONS = 4
"""Maximum number of questions about source that are answered at the same time; more are rejected. If a file system
hangs, each of them keeps a thread waiting."""

MAX_BREAKPOINT_QUESTIONS = 16
"""Maximum number of unanswered questions about breakpoints in a running rank; more are rejected. The rank answers them
one by one."""

_for_source = BoundedThreads("dbg-agent-source", MAX_SOURCE_QUESTIONS)
_for_breakpoints = BoundedThreads("dbg-agent-breakpoints", MAX_BREAKPOINT_QUESTIONS)


def _answer_in(threads: BoundedThreads, what: str, ask: Ask, answer: Answer, work: Callable[[], object]) -> None:
    """Run ``work``, which sends the answer, in one of these threads; send an error if it fails or too many run."""

    def run() -> None:
        try:
            work()
        except NotLoaded as error:
            answer(ask, Kind.ERROR, str(error))
        except Exception as error:
            answer(ask, Kind.ERROR, f"the question can't be answered ({error_line(error)})")

    if not threads.start(run):
        answer(ask, Kind.ERROR, f"{threads.most} questions about its {what} are already waiting; try again")


def source_question(ask: Ask) -> Inspection | None:
    """Return the question if it asks only for source, else None."""
    question = ask.inquiry
    return question if isinstance(question, Inspection) and question.sight is InspectionKind.SOURCE else None


def answer_source(ask: Ask, question: Inspection, answer: Answer) -> None:
    """Answer a question about source in a background thread, because it may read files."""
    _answer_in(_for_source, "source", ask, answer, lambda: answer(ask, Kind.VALUE, "", rows=_rows(question)))


def _rows(question: Inspection) -> tuple[InspectionRecord, ...]:
    # The stopped thread has its own record of sources, which no other thread may access.
    return cut_to_fit(source_text(question.text, question.start, question.count))


def answer_breakpoints(breakpoints: UserBreakpoints, ask: Ask, answer: Answer, then: Callable[[], object]) -> None:
    """Make the requested changes and answer, in a background thread, because the changes may read files.

    ``then`` is called if the question requested any change.
    """
    spec = ask.inquiry if isinstance(ask.inquiry, BreakpointChanges) else BreakpointChanges()

    def apply() -> None:
        states = breakpoints.apply(spec)
        if spec.set or spec.clear:
            then()
        answer(ask, Kind.VALUE, f"{len(states)} breakpoints", rows=tuple(states))

    _answer_in(_for_breakpoints, "breakpoints", ask, answer, apply)
