"""A process without resources passes a stop with one line; what the program raises in a stop leaves the stop."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import HELP, sit_in_pudb
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states, wait_until_stopped
from tests.support.sessions import COLUMNS, ROWS
from tests.support.stopped_rank import wait_for_whole

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
    def __del__(self, stop=dbg_agent.set_trace, say=print):
        stop()
        say("done")
held = Held()
""",
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_a_rank_with_nothing_left_passes_by(name: str, processes: Processes, home: Path) -> None:
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
    script = RAISES.replace("    set_trace()\n", "    signal.setitimer(signal.ITIMER_REAL, 0.5)\n    set_trace()\n")
    (rank,) = start_ranks(processes, home, script, 1, env={"DBG_CONNECT_TIMEOUT": "0", "DBG_ON_MISSING": "wait"})
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


@pytest.mark.parametrize(
    ("is_jailed", "is_named"), [(False, False), (True, False), (True, True)], ids=["closes", "chroot", "chroot-named"]
)
def test_a_stop_outlives_descriptors_and_root_directory(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal, *, is_jailed: bool, is_named: bool
) -> None:
    broker = running_broker(processes, home)
    # In an empty root directory nobody says which address a name has.
    address = f"localhost:{broker.port}#{broker.rendezvous['fingerprint']}"
    variables = {"DBG_BROKER": address, "DBG_TOKEN": broker.tokens["rank"]} if is_named else {}
    program = CLOSES.format(root=str(tmp_path / "root"))
    if not is_jailed:
        program = program.replace("    os.chroot(root)\n", "")
    (rank,) = start_ranks(processes, home, program, 1, env={"DBG_ENGINE": "pdb", **variables})
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
