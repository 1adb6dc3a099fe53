"""The program goes before the agent: its arguments, forks, signals, tracing and recursion work as without."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dbg_wire.errors import NoBroker
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach, attach_list, start_ranks, wait_until_stopped


def start_one(processes: Processes, home: Path, script: str, **variables: str) -> Child:
    (rank,) = start_ranks(processes, home, script, 1, env=variables)
    return rank


def resume(home: Path, target: str) -> None:
    done = attach(home, "continue", target)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------- arguments

BAD_ARGUMENTS = """\
from dbg_agent import install, set_trace
class Evil:
    def __repr__(self):
        raise RuntimeError("no repr")
    def __eq__(self, other):
        raise RuntimeError("no comparison")
    __hash__ = None
    def __bool__(self):
        raise RuntimeError("no truth")
    __float__ = __len__ = __str__ = __bool__
class Number(float):
    def __float__(self):
        raise RuntimeError("no number")
for _ in range(3):
    install(7, breakpoint="perhaps", nonsense=1)
    set_trace(Evil(), broker=Evil(), connect_timeout=Evil(), on_missing=Evil(), nonsense=Evil())
    set_trace(connect_timeout=10 ** 400, on_missing=["raise"])
    set_trace(connect_timeout=Number(1), on_missing="\\x1b[31m\\n")
print("done")
"""


def test_each_unusable_argument_causes_one_warning_and_no_harm(processes: Processes, home: Path) -> None:
    rank = start_one(processes, home, BAD_ARGUMENTS, DBG_CONNECT_TIMEOUT="0.2")
    assert rank.wait() == 0
    assert rank.text() == "done\n"
    lines = rank.text("stderr").splitlines()
    assert all(line.startswith("dbg-agent: ") and line.isprintable() for line in lines), lines
    assert len(set(lines)) == len(lines)
    for text in ("set_trace(broker=…) is a Evil ", "install(classic=…) is 'perhaps',", str(NoBroker())):
        assert any(text in line for line in lines), (text, lines)
    assert not any("failed" in line for line in lines)


def test_a_requested_error_is_raised_at_every_pass(processes: Processes, home: Path) -> None:
    # A pass that waits takes 0.3 s.
    script = """\
from dbg_agent import set_trace
from dbg_wire.errors import DbgError
def passes():
    try:
        set_trace(on_missing="raise", connect_timeout=0.3)
    except DbgError as error:
        assert error.__traceback__.tb_frame.f_code.co_name == "passes"
        return f"{type(error).__name__}: {error}"
print(passes())
for _ in range(1000):
    assert passes()
"""
    rank = start_one(processes, home, script)
    assert rank.wait() == 0, rank.tail()
    assert rank.text() == f"NoBroker: {NoBroker()}\n"
    assert rank.text("stderr") == ""


WAITS = """\
from dbg_agent import set_trace
try:
    print("before", flush=True)
    set_trace(on_missing="wait", connect_timeout=0)
except KeyboardInterrupt:
    print("interrupted")
else:
    print("after")
"""


def test_a_rank_set_to_wait_waits_until_a_broker_starts(processes: Processes, home: Path) -> None:
    rank = start_one(processes, home, WAITS)
    rank.wait_for_output("before")
    running_broker(processes, home)
    wait_until_stopped(home, 1)
    assert rank.text() == "before\n"
    resume(home, "0")
    assert rank.wait() == 0
    assert rank.text() == "before\nafter\n"


# ----------------------------------------------------------------------------------------------------------- forks

FORKED = {
    "os.fork": "pid = os.fork()\nif pid == 0:\n    child()\n    os._exit(0)\nos.waitpid(pid, 0)",
    "pool": "with get_context('fork').Pool(1) as pool:\n    pool.apply(child)",
    "fork in a thread": (
        "pid = []\ndef work():\n    pid.append(os.fork())\n    if pid[0] == 0:\n        child()\n        os._exit(0)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\nos.waitpid(pid[0], 0)"
    ),
}


def forking(how: str) -> str:
    """Return a script that starts a child which stops, and that then stops itself."""
    body = "".join(f"    {line}\n" for line in FORKED[how].splitlines())
    return f"""\
import os, sys, threading
from multiprocessing import get_context
from dbg_agent import set_trace
def child():
    set_trace()
    print("child done", flush=True)
if __name__ == "__main__":
    set_trace()
{body}    set_trace()
    print("parent done", flush=True)
"""


@pytest.mark.parametrize("how", FORKED)
def test_a_child_stops_and_leaves_the_connection_of_its_parent_alone(
    how: str, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    rank = start_one(processes, home, forking(how), PYTHONWARNINGS="error,ignore::DeprecationWarning")
    (parent,) = wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    terminal.send("c")
    assert terminal.exit_status() == 7
    (child,) = wait_until_stopped(home, 1)
    assert child["address"] == f"{parent['host']}:0.1"
    assert (child["child"], child["rank"], child["job"]) == (1, 0, parent["job"])
    assert child["pid"] != parent["pid"]
    assert child["where"]["function"] == "child"
    both = {known["pid"]: known["state"] for known in attach_list(home)}
    assert both == {parent["pid"]: "running", child["pid"]: "stopped"}
    terminal = sit_in_pudb(open_terminal, child["address"])
    terminal.send("c")
    # A child that calls os._exit() at once may be gone before it has reported that it went on.
    assert terminal.exit_status() in (7, 8)
    rank.wait_for_output("child done")
    (again,) = wait_until_stopped(home, 1)
    assert again["pid"] == parent["pid"]
    resume(home, parent["address"])
    assert rank.wait() == 0
    assert rank.text() == "child done\nparent done\n"
    lines = rank.text("stderr").splitlines()
    assert len(lines) == 3
    assert all(" stopped at " in line for line in lines), lines


# --------------------------------------------------------------------------------------------------------- signals

ALARMED = """\
import signal, sys
from dbg_agent import set_trace
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
class Mine(BaseException):
    pass
cause = ValueError("cause")
def raises(number, frame):
    raise Mine from cause
signal.signal(signal.SIGALRM, raises)
for _ in range(2):
    try:
        set_trace()
        here = 1
    except Mine as error:
        assert error.__cause__ is cause and error.__context__ is None
        print("mine", sys.gettrace(), flush=True)
    signal.sigwait({signal.SIGUSR1})
print("done")
"""


def test_an_exception_of_the_signal_handler_of_the_program_propagates(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    rank = start_one(processes, home, ALARMED)
    for count in (1, 2):
        wait_until_stopped(home, 1)
        rank.wait_for_output("(?s)" + ".*stopped at" * count, stream="stderr")
        terminal = sit_in_pudb(open_terminal, ":0")
        rank.signal(signal.SIGALRM)
        rank.wait_for_output("mine None\n" * count)
        assert terminal.exit_status() == 7
        rank.signal(signal.SIGUSR1)
    assert rank.wait() == 0
    assert rank.text() == "mine None\nmine None\ndone\n"
    assert len(rank.text("stderr").splitlines()) == 2, rank.text("stderr")


# --------------------------------------------------------------------------------------------- tracing, depth, ends


def test_a_stopped_daemon_thread_does_not_keep_the_program_running(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    script = """\
import signal, threading
from dbg_agent import set_trace
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
threading.Thread(target=set_trace, daemon=True).start()
signal.sigwait({signal.SIGUSR1})
print("done")
"""
    running_broker(processes, home)
    rank = start_one(processes, home, script)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    rank.signal(signal.SIGUSR1)
    assert rank.wait() == 0
    assert rank.text() == "done\n"
    assert terminal.exit_status() == 8
    assert len(rank.text("stderr").splitlines()) == 1, rank.text("stderr")
