"""What the tests start has its keyboard signals, also where the tests themselves are to be left alone by them.

A script's ``&`` starts its command with SIGINT and SIGQUIT ignored, ``nohup`` with SIGHUP. Programs inherit that, and
Python then installs no handler of its own: no Ctrl-C of a test would reach the program that it is typed at.
"""

from __future__ import annotations

import signal
from types import FrameType

KEYBOARD = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals that a terminal sends, and that a shell may have set to be ignored."""


def pass_no_ignored_signals() -> None:
    """Have programs that this process starts begin with the default for each keyboard signal; in the main thread.

    The process itself goes on as if it ignored them: a handler isn't inherited by a program, and an ignored signal is.
    """
    for number in KEYBOARD:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass
