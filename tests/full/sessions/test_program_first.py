"""The program goes before the agent: its arguments, forks, signals, tracing and recursion work as without."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_program_first import let_go, start_one
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach_list, wait_until_stopped


def test_a_child_that_does_not_stop_is_nobody_and_says_nothing(processes: Processes, home: Path) -> None:
    script = """\
import gc, os
from dbg_agent import install, set_trace
install()
set_trace()
for _ in range(3):
    if os.fork() == 0:
        gc.collect()
        raise SystemExit
    os.wait()
set_trace()
"""
    running_broker(processes, home)
    rank = start_one(processes, home, script, PYTHONWARNINGS="error,ignore::DeprecationWarning", PYTHONDEVMODE="1")
    for _ in range(2):
        wait_until_stopped(home, 1)
        let_go(home, "0")
    assert rank.wait() == 0
    (listed,) = attach_list(home, "--all")
    assert listed["pid"] == rank.pid
    assert len(rank.text("stderr").splitlines()) == 2, rank.text("stderr")


def test_a_child_forked_beside_a_stop_is_not_stopped(processes: Processes, home: Path) -> None:
    script = """\
import os, signal, threading
from dbg_agent import set_trace
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
def work():
    signal.sigwait({signal.SIGUSR1})
    if os.fork() == 0:
        print("child goes on", flush=True)
        set_trace()
        signal.sigwait({signal.SIGUSR1})
        print("child done", flush=True)
        os._exit(0)
    os.wait()
thread = threading.Thread(target=work)
thread.start()
set_trace()
thread.join()
print("done")
"""
    running_broker(processes, home)
    rank = start_one(processes, home, script)
    wait_until_stopped(home, 1)
    os.kill(rank.pid, signal.SIGUSR1)
    rank.wait_for_output("child goes on")
    pids = {known["child"]: known["pid"] for known in wait_until_stopped(home, 2)}
    assert pids.keys() == {None, 1}
    let_go(home, ":0.1")
    os.kill(pids[1], signal.SIGUSR1)
    rank.wait_for_output("child done")
    let_go(home, ":0")
    assert rank.wait() == 0


TRACED = """\
import sys, threading
from dbg_agent import set_trace
seen = []
def tracer(frame, event, argument):
    if frame.f_code.co_filename == __file__:
        seen.append((event, frame.f_lineno))
    return tracer
def work():
    before = 1
    set_trace()
    after = 2
first = sys._getframe().f_lineno - 4
sys.settrace(tracer)
work()
assert sys.gettrace() is tracer
sys.settrace(None)
lines = [line - first for event, line in seen if event == "line"]
print(lines)
"""


@pytest.mark.parametrize("stops", [False, True])
def test_a_program_that_traces_itself_goes_on_doing_so(
    stops: bool, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    if stops:
        running_broker(processes, home)
    rank = start_one(processes, home, TRACED, **({} if stops else {"DBG_CONNECT_TIMEOUT": "0.1"}))
    if stops:
        wait_until_stopped(home, 1)
        terminal = sit_in_pudb(open_terminal, ":0")
        terminal.send("c")
        assert terminal.exit_status() == 7
    assert rank.wait() == 0, rank.tail()
    assert rank.text() == "[1, 2, 3]\n"
