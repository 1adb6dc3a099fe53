"""Programs that the tests start react to keyboard signals, also where the tests themselves ignore them.

A script's ``&`` starts its command with SIGINT and SIGQUIT ignored, ``nohup`` with SIGHUP. Programs inherit that, and
Python then installs no handler of its own: no Ctrl-C of a test would reach the program that it is typed at.
"""

from __future__ import annotations

import signal
from types import FrameType

KEYBOARD = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals that a terminal sends, and that a shell may have set to be ignored."""


def pass_no_ignored_signals() -> None:
    """Have programs that this process starts begin with the default for each keyboard signal; call in the main thread.

    This process does nothing at such a signal, as before. A started program inherits no handler, but would inherit
    that a signal is ignored.
    """
    for number in KEYBOARD:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass
