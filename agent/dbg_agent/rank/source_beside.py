"""The answer to a question about source while the program runs: no thread of the program is needed for it."""

from __future__ import annotations

from collections.abc import Callable

from dbg_wire.errors import PeerError, printable
from dbg_wire.inspection import Inspection, Sight, decode_inspection, encode_inspected
from dbg_wire.messages import Ask, Kind

from ..inspection.source_text import NotLoaded, source_text
from ..own_threads import BoundedThreads
from ..stop.loaded_sources import Loaded

MAX_WAITING = 4
"""Questions about source that are answered at the same time, as a file system may hang; more are refused."""

_threads = BoundedThreads("dbg-agent-source", MAX_WAITING)


def is_about_source(ask: Ask) -> bool:
    """Tell whether a question is about source alone."""
    try:
        return decode_inspection(ask.text).sight is Sight.SOURCE
    except PeerError:
        return False


def answer_beside(ask: Ask, answer: Callable[..., None]) -> None:
    """Answer a question about source in a thread of its own, which may read files."""

    def tell() -> None:
        try:
            answer(ask, Kind.VALUE, "", rows=_rows(decode_inspection(ask.text)))
        except NotLoaded as error:
            answer(ask, Kind.ERROR, str(error))
        except Exception as error:
            answer(ask, Kind.ERROR, f"can't be answered ({type(error).__name__}: {printable(str(error))})")

    if not _threads.start(tell):
        answer(ask, Kind.ERROR, f"{MAX_WAITING} questions about its source wait already")


def _rows(question: Inspection) -> tuple[str, ...]:
    # The stopped thread has its own record of sources, which no other thread may touch.
    return encode_inspected(source_text(question.text, question.begin, question.count, (), Loaded()))
