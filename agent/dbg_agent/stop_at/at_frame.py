"""An expression of a stop at a frame of the program, such as its condition."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from dbg_agent.stop.frame_locals import read_locals


def evaluate_at(code: CodeType, frame: FrameType, rank: Callable[[], int]) -> Any:
    """Return the value at this frame; the name ``rank`` is this process's number if the program has no such name.

    Raise what the expression raises.
    """
    names = read_locals(frame)
    if "rank" in code.co_names and "rank" not in names and "rank" not in frame.f_globals:
        names["rank"] = rank()
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        # A comprehension or a lambda sees only its own locals and globals, so the frame's locals become globals.
        return eval(code, {**frame.f_globals, **names})  # noqa: S307 - it is the user's own
    return eval(code, frame.f_globals, names)  # noqa: S307
