"""A process's memory and its control group, read from files in the kernel's shapes, and from the kernel itself."""

from __future__ import annotations

import os
import signal

import pytest

from dbg_agent.guard.watched import WatchedProcess


@pytest.mark.parametrize(
    ("number", "is_calm", "is_unheard"),
    [(0, True, False), (0, False, True), (signal.SIGKILL, True, True), (signal.SIGKILL, False, True)],
)
def test_who_ended_by_a_signal_or_unannounced_has_not_said_how(number: int, is_calm: bool, is_unheard: bool) -> None:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.read(read, 1)
        if number:
            os.kill(os.getpid(), number)
        os._exit(3)
    try:
        watched = WatchedProcess(child)
        os.write(write, b"x")
        assert not watched.is_alive(60)
        # Nobody has asked for its status yet, as of a rank whose launcher is slow.
        assert watched.status() == (number or 3 << 8)
        assert watched.has_ended_unheard(is_calm=is_calm) is is_unheard
    finally:
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
        if watched.descriptor >= 0:
            os.close(watched.descriptor)
