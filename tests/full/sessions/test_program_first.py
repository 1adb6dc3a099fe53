"""The program goes before the agent, in odd places, without resources and at its very end."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_odd_places import IN_CI, SITUATIONS, stops_and_goes_on
from tests.e2e.test_program_first import resume, start_one
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import HELP, sit_in_pudb
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_states, wait_until_stopped
from tests.support.sessions import COLUMNS, ROWS
from tests.support.stopped_rank import wait_for_whole


def test_a_child_that_does_not_stop_is_not_listed_and_prints_no_message(processes: Processes, home: Path) -> None:
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
        resume(home, "0")
    assert rank.wait() == 0
    (listed,) = attach_list(home, "--all")
    assert listed["pid"] == rank.pid
    assert len(rank.text("stderr").splitlines()) == 2, rank.text("stderr")


def test_a_child_forked_during_a_stop_is_not_stopped(processes: Processes, home: Path) -> None:
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
    resume(home, ":0.1")
    os.kill(pids[1], signal.SIGUSR1)
    rank.wait_for_output("child done")
    resume(home, ":0")
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
def test_a_program_that_traces_itself_keeps_its_trace_function(
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


PASSES = """\
for _ in range(1000):
    set_trace()
"""
"""Takes far longer than its end is waited for, if each call waits for a broker."""

NOTHING_LEFT = {
    "no descriptors": f"""\
import os, resource
from dbg_agent import set_trace
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
{PASSES}
for descriptor in taken:
    os.close(descriptor)
print("done")
""",
    "no threads": f"""\
import threading
from dbg_agent import set_trace
def fail(*arguments, **options):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = fail
{PASSES}
print("done")
""",
    "an installation that breaks": f"""\
import sys
from dbg_agent import set_trace
sys.modules["dbg_agent.launch.this_process"] = None
{PASSES}
print("done")
""",
    "after our own goodbye": """\
import atexit
@atexit.register
def leave():
    dbg_agent.set_trace(connect_timeout=1000)
    print("done")
import dbg_agent
dbg_agent.install()
""",
    "after the last module": """\
import dbg_agent
class Held:
    def __del__(self, stop=dbg_agent.set_trace, write=print):
        stop()
        write("done")
held = Held()
""",
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_a_rank_without_resources_passes_its_stops(name: str, processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    variables = {"DBG_CONNECT_TIMEOUT": "0.5"}
    (rank,) = start_ranks(processes, home, NOTHING_LEFT[name], 1, env=variables)
    assert rank.wait() == 0
    assert rank.text() == "done\n"
    assert re.fullmatch(r"dbg-agent: [^\n]*\n", rank.text("stderr")), rank.text("stderr")


RAISES = """\
import signal, sys
from dbg_agent import set_trace
class Alarm(Exception):
    pass
def ring(number, frame):
    raise Alarm("from the program")
signal.signal(signal.SIGALRM, ring)
def work():
    set_trace()
    a = 1
    b = 2
try:
    work()
except BaseException as error:
    assert error.__cause__ is None and error.__context__ is None, (error.__cause__, error.__context__)
    print("raised", type(error).__name__, *error.args, flush=True)
assert sys.gettrace() is None
"""


def test_an_alarm_ends_the_wait_for_a_broker(processes: Processes, home: Path) -> None:
    (rank,) = start_ranks(processes, home, RAISES, 1, env={"DBG_CONNECT_TIMEOUT": "0", "DBG_ON_MISSING": "wait"})
    rank.wait_for_output("dbg-agent: [^\n]*\n", stream="stderr")
    rank.signal(signal.SIGALRM)
    assert rank.wait() == 0
    assert rank.text() == "raised Alarm from the program\n"
    assert re.fullmatch("dbg-agent: [^\n]*\n", rank.text("stderr"))


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGALRM, "Alarm from the program"), (signal.SIGINT, "KeyboardInterrupt")],
    ids=["SIGALRM", "SIGINT"],
)
def test_a_signal_after_a_step_ends_a_dialog_of_the_debugger(
    number: int, raised: str, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, RAISES, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    terminal.send("nn?")
    terminal.wait_for(HELP)
    # Once drawn, PuDB waits for a key: an exception amid the drawing would show in a dialog of PuDB instead.
    wait_for_whole(terminal, home, ":0")
    rank.signal(number)
    assert rank.wait() == 0
    assert rank.text() == f"raised {raised}\n"
    assert terminal.exit_status() in (7, 8)


CLOSES = """\
import os, sys, dbg_agent

def becomes_daemon(root):
    os.chroot(root)
    os.closerange(3, 1024)
    mine = [os.open("file", os.O_CREAT | os.O_RDWR) for _ in range(40)]
    return mine

root = {root!r}
os.makedirs(root, exist_ok=True)
os.chdir(root)
dbg_agent.set_trace()
mine = becomes_daemon(root)
intact = len({{os.fstat(number).st_ino for number in mine}}) == 1 and os.path.getsize("file") == 0
sys.exit(0 if intact else 7)
"""


@pytest.mark.parametrize("is_jailed", [False, True], ids=["closes", "chroot"])
def test_a_stop_survives_closed_descriptors_and_a_new_root_directory(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal, *, is_jailed: bool
) -> None:
    running_broker(processes, home)
    program = CLOSES.format(root=str(tmp_path / "root"))
    if not is_jailed:
        program = program.replace("    os.chroot(root)\n", "")
    (rank,) = start_ranks(processes, home, program, 1, env={"DBG_ENGINE": "pdb"})
    wait_until_states(home, {0: "stopped"})
    terminal = open_terminal(attach_command("0"), rows=ROWS, cols=COLUMNS)
    terminal.wait_for("(Pdb)")
    terminal.send("n\r")
    terminal.wait_for("-> intact")
    terminal.send("p 6 * 7000\r")
    terminal.wait_for("42000")
    assert attach(home, "eval", "0", "6 * 8").stdout.endswith(" 0  48\n")
    assert "rank_script.py" in attach(home, "where", "0").stdout
    terminal.send("n\r")
    terminal.wait_for("-> sys.exit")
    terminal.send("c\r")
    assert rank.wait() == 0


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_rank_without_a_broker_continues_and_prints_one_line(name: str, processes: Processes, home: Path) -> None:
    situation = SITUATIONS[name]
    rank = situation.start(processes, home, DBG_CONNECT_TIMEOUT="0.2")
    situation.check(rank)


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in IN_CI])
def test_a_rank_with_a_broker_stops_opens_the_debugger_and_continues(
    name: str, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    stops_and_goes_on(name, processes=processes, home=home, open_terminal=open_terminal)


TRACED_LAST = """\
import builtins, os, sys
import dbg_agent

class Last:
    def __del__(self):
        self.write(1, f"traced at the end: {self.tracer()}\\n".encode())

def later():
    pass

Last.write, Last.tracer = staticmethod(os.write), staticmethod(sys.gettrace)
builtins.last = Last()
dbg_agent.set_trace()
print("traced in the program:", sys.gettrace() is not None)
"""


@pytest.mark.usefixtures("broker")
def test_finalizers_that_python_runs_last_are_not_traced(processes: Processes, home: Path) -> None:
    (rank,) = start_ranks(processes, home, TRACED_LAST, 1)
    wait_until_states(home, {0: "stopped"})
    attach(home, "command", "0", "b later")
    attach(home, "continue", "0")
    assert rank.wait() == 0
    output = rank.text()
    assert "traced in the program: True" in output
    assert "traced at the end: None" in output
