"""Threads of ours take no signal of the program, and no thread of ours is started in another way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from dbg_agent.process.threads import BoundedThreads

WAITS_FOR_A_SIGNAL = """\
import os, signal, threading
from dbg_agent.process.threads import own_thread
is_up, may_end = threading.Event(), threading.Event()
own_thread(lambda: is_up.set() or may_end.wait(), "dbg-agent-test").start()
is_up.wait()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait({signal.SIGUSR1}).name)
"""


def test_a_program_that_waits_for_a_signal_gets_it_and_is_not_ended_by_it() -> None:
    done = subprocess.run([sys.executable, "-c", WAITS_FOR_A_SIGNAL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "SIGUSR1\n"), done.stderr


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    threads, gate = BoundedThreads("dbg-agent-test", 1), threading.Event()
    assert threads.start(gate.wait)
    child = os.fork()
    if child == 0:
        os._exit(0 if threads.start(lambda: None) else 1)
    _, status = os.waitpid(child, 0)
    gate.set()
    assert os.waitstatus_to_exitcode(status) == 0
