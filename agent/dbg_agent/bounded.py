"""Bound the wait for a call that the kernel may never answer, such as one on a network file system."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dbg_agent.own_threads import own_thread

_T = TypeVar("_T")


def within(seconds: float, call: Callable[[], _T], otherwise: _T) -> _T:
    """Return the result of ``call`` in another thread, or ``otherwise`` after so many seconds.

    ``call`` must not raise. Raise RuntimeError if no thread can be started.
    """
    answers: list[_T] = []
    asking = own_thread(lambda: answers.append(call()), "dbg-agent-asking")
    asking.start()
    asking.join(seconds)
    return answers[0] if answers else otherwise
