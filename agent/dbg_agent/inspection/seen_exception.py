"""The exception for which a rank is kept, or that its stopped thread handles."""

from __future__ import annotations

import os
import traceback

from dbg_agent.inspection.class_survey import full_name_of
from dbg_agent.values.answer_text import error_text
from dbg_wire.records.inspection import ExceptionSeen
from dbg_wire.records.record import fitted

_OWN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")  # noqa: PTH118, PTH120 - no pathlib in a rank
"""The folder of the agent, whose frames only run the program."""

MAX_MESSAGE, MAX_TRACEBACK = 3000, 9000
"""Characters of the two texts: with some escapes they fit into one row."""

MAX_CHAIN = 100
"""Causes and contexts whose frames are looked at."""


def seen_exception(error: BaseException, *, is_uncaught: bool) -> ExceptionSeen:
    """Return what is told of an exception; its ``str`` may run code of the program."""
    _, _, message = error_text(error).partition(": ")
    return fitted(
        ExceptionSeen,
        type=full_name_of(type(error)),
        text=_cut(message, MAX_MESSAGE),
        traceback=_cut(_traceback_of(error), MAX_TRACEBACK),
        is_uncaught=is_uncaught,
    )


def _traceback_of(error: BaseException) -> str:
    told: traceback.TracebackException | None = traceback.TracebackException(type(error), error, error.__traceback__)
    whole = told
    for _ in range(MAX_CHAIN):
        if told is None:
            break
        told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(_OWN)]
        told = told.__cause__ or told.__context__
    return "".join(whole.format()) if whole is not None else ""


def _cut(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    half = most // 2 - 20
    return f"{text[:half]}\n… [{len(text)} characters] …\n{text[-half:]}"
