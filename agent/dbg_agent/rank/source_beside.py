"""The answer to a question about source while the program runs: no thread of the program is needed for it."""

from __future__ import annotations

from collections.abc import Callable

from dbg_agent.own_threads import BoundedThreads
from dbg_agent.stop.loaded_sources import Loaded
from dbg_agent.values.source_text import NotLoaded, source_text
from dbg_wire.errors import printable
from dbg_wire.messages import Ask, Kind
from dbg_wire.records.inspection import Inspection, InspectionRecord, Sight, cut_to_fit

MAX_WAITING = 4
"""Questions about source that are answered at the same time, as a file system may hang; more are refused."""

_threads = BoundedThreads("dbg-agent-source", MAX_WAITING)


def source_question(ask: Ask) -> Inspection | None:
    """Return what is asked about source alone, None for another question."""
    question = ask.inquiry
    return question if isinstance(question, Inspection) and question.sight is Sight.SOURCE else None


def answer_beside(ask: Ask, question: Inspection, answer: Callable[..., None]) -> None:
    """Answer a question about source in a thread of its own, which may read files."""

    def tell() -> None:
        try:
            answer(ask, Kind.VALUE, "", rows=_rows(question))
        except NotLoaded as error:
            answer(ask, Kind.ERROR, str(error))
        except Exception as error:
            answer(ask, Kind.ERROR, f"can't be answered ({type(error).__name__}: {printable(str(error))})")

    if not _threads.start(tell):
        answer(ask, Kind.ERROR, f"{MAX_WAITING} questions about its source wait already")


def _rows(question: Inspection) -> tuple[InspectionRecord, ...]:
    # The stopped thread has its own record of sources, which no other thread may touch.
    return cut_to_fit(source_text(question.text, question.begin, question.count, (), Loaded()))
