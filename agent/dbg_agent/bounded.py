"""Ask the kernel what it may never answer, such as of a file on a network file system, without waiting for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def within(seconds: float, call: Callable[[], _T], otherwise: _T) -> _T:
    """Return what ``call`` returns in another thread, or ``otherwise`` after so many seconds; it must not raise.

    Raise RuntimeError if no thread can be had.
    """
    answers: list[_T] = []
    asking = threading.Thread(target=lambda: answers.append(call()), name="dbg-agent-asking", daemon=True)
    asking.start()
    asking.join(seconds)
    return answers[0] if answers else otherwise
