"""Threads of ours in the program's process: daemons in which every signal is blocked.

Signals are for the program's threads. The kernel gives a signal to any thread that does not block it: the program may
have blocked it in its own threads to wait for it, and a signal taken by a thread of ours ends no wait of the program.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def own_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a thread that is still to be started; its ``name`` begins with ``dbg-agent``."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        target()

    return threading.Thread(target=run, name=name, daemon=True)
