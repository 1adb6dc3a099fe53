"""PuDB and pdb over the broker: keys, threads, frames, deep stacks, edited files, ranks that are broken into."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.smoke.test_break_in import start as start_loop
from tests.smoke.test_pdb import at_prompt, let_end, run, sit, start
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import (
    DRAWN,
    sit_in_pudb,
)
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    attach_list,
    start_ranks,
    texts,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.runs import Directory, text_of, wait_for_prompt
from tests.support.sessions import DETACH, detach
from tests.support.stopped_rank import (
    PAUSE,
    start_stopped,
    wait_for_list,
    wait_for_whole,
)
from tests.support.time_unit import seconds

TWO_THREADS = f"""\
{PAUSE}
both = threading.Barrier(2)
def work(number):
    both.wait()
    set_trace()
    after = number + 1

threads = [threading.Thread(target=work, args=(number,)) for number in (1000, 2000)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("both done", flush=True)
"""


@pytest.mark.usefixtures("broker")
def test_the_stop_of_a_second_thread_follows_in_the_same_terminal(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_stopped(processes, home, TWO_THREADS)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.wait_for(re.compile("number: [12]000"))
    wait_for_list(home, lambda listed: listed[0]["queued"] == 1)
    first = "1000" if "number: 1000" in "\n".join(terminal.screen) else "2000"
    second = "2000" if first == "1000" else "1000"
    terminal.send("n")
    terminal.wait_for(re.compile(r"^>\s+after = ", re.MULTILINE))
    terminal.send("c")
    terminal.wait_for(f"number: {second}")
    wait_for_whole(terminal, home)
    assert attach_list(home)[0]["queued"] == 0
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text() == "both done\n"


@pytest.mark.usefixtures("broker")
def test_ctrl_c_ends_a_step_that_waits_for_a_thread_that_waits_to_stop(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    script = TWO_THREADS.replace("    after =", "    both.wait()\n    after =")
    rank = start_stopped(processes, home, script)
    terminal = sit_in_pudb(open_terminal, "0")
    wait_for_list(home, lambda listed: listed[0]["queued"] == 1)
    terminal.send("n")
    terminal.wait_for(re.compile(r"^>\s+both.wait", re.MULTILINE))
    terminal.send("n")
    terminal.wait_for("1 thread waits to stop")
    terminal.send("\x03")
    wait_for_list(home, lambda listed: (listed[0]["state"], listed[0]["queued"]) == ("stopped", 0))
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait() == 0
    assert rank.text() == "both done\n"


COLUMNS = 200


def test_ctrl_c_stops_a_rank_that_runs_with_a_breakpoint(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start(processes, home, SCRIPT_LOOPS="1")
    terminal = sit(open_terminal)
    terminal.send("b long\r")
    terminal.wait_for("Breakpoint 1 at")
    terminal.send("c\r")
    wait_until_states(home, {0: "running"})
    terminal.send("\x03")
    terminal.wait_for(re.compile(r"^-> .*\n\(Pdb\)$", re.MULTILINE))
    at_prompt(terminal)
    assert float(run(terminal, "p loss")) > 0
    detach(terminal)
    assert attach(home, "kill", "0", "-y").returncode == 0


LATER = 26
"""A line after FIRST."""


def test_one_stop_opens_in_pudb_and_pdb_in_turn(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    terminal.send(f"b {LATER}\r")
    terminal.wait_for("Breakpoint 1 at")
    before = attach_list(home)[0]["where"]
    terminal.send(DETACH)
    assert terminal.exit_status() == 0
    pudb = open_terminal(attach_command("0", "--engine", "pudb"), rows=30, cols=COLUMNS)
    pudb.wait_for(lambda it: it.row(0).startswith("PuDB"))
    pudb.wait_for(re.compile(rf"rank_script\.py:{LATER}"))  # among its breakpoints
    detach(pudb)
    again = sit(open_terminal, "--engine", "pdb")
    assert attach_list(home)[0]["where"]["function"] == before["function"] == "train"
    assert f"rank_script.py:{LATER}" in run(again, "b")
    again.send("c\r")
    again.wait_for(re.compile(r"^-> loss = loss - 1$", re.MULTILINE))
    at_prompt(again)
    again.send("clear\ry\r")
    at_prompt(again)
    let_end(again, rank)


HANGING = """\
import os
import threading
import dbg_agent
dbg_agent.install()
done = threading.Event()

def train_step(step):
    done.wait()

def next_batch(step):
    done.wait()

def main():
    outer = "of main"
    rank = int(os.environ["RANK"])
    (next_batch if rank == 2 else train_step)(40 + rank // 2)

main()
"""

STEP = 8
"""Line at which train_step() waits."""


def test_a_debugger_opens_at_the_requested_frame_and_a_question_uses_another(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HANGING, 1)
    wait_until_states(home, {0: "running"})

    terminal = open_terminal(attach_command("interrupt", "0", "--frame", "main"), rows=30, cols=120)
    terminal.wait_for(DRAWN)
    terminal.wait_for(">> main")
    terminal.wait_for("in main rank_script.py:")
    terminal.send(b"\x1d:")
    terminal.wait_for("Esc leaves")
    terminal.send("e --frame train_step 0 step\r")
    terminal.wait_for(f"1 value, in train_step rank_script.py:{STEP}")
    terminal.send("q")
    terminal.wait_for(">> main")
    detach(terminal)

    again = open_terminal(attach_command("0", "--frame", "train_step"), rows=30, cols=120)
    again.wait_for(">> train_step")
    detach(again)
    missing = open_terminal(attach_command("0", "--frame", "tarin_step"), rows=30, cols=160)
    missing.wait_for("tarin_step")
    detach(missing)


HEAD = """\
import sys
def depth():
    frame, n = sys._getframe(), 0
    while frame is not None:
        frame, n = frame.f_back, n + 1
    return n
def deep(n, stop):
    if n:
        deep(n - 1, stop)
    else:
        stop()
        after = 1
        after = 2
        after = 3
def with_left(left, stop):
    deep(sys.getrecursionlimit() - depth() - left, stop)
limit = sys.getrecursionlimit()
"""

TAIL = """\
print("the limit is", "as before" if sys.getrecursionlimit() == limit else sys.getrecursionlimit())
"""


def start_deep(processes: Processes, home: Path, script: str, **variables: str) -> Child:
    (rank,) = start_ranks(processes, home, f"{HEAD}{script}{TAIL}", 1, env=variables)
    return rank


def let_deep_go(home: Path, rank: Child, verb: str = "continue") -> None:
    done = attach(home, verb, "all")
    assert done.returncode == 0, done.stderr
    assert rank.wait() == 0, rank.tail()
    assert rank.text().endswith("the limit is as before\n")


NESTED = "(lambda call: call(call, 100))(lambda call, n: n and call(call, n - 1))"
"""An expression that calls itself a hundred times."""


def test_a_rank_deep_in_the_stack_stops_opens_and_answers(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    rank = start_deep(processes, home, "from dbg_agent import set_trace\nwith_left(300, set_trace)\n")
    wait_until_stopped(home, 1)
    assert texts(ask(home, "eval", "0", NESTED)) == {"0": "0"}
    terminal = open_terminal(attach_command(":0"), cols=100)
    terminal.wait_for(DRAWN)
    let_deep_go(home, rank)
    assert terminal.exit_status() == 7


PROGRAM = """\
import sys
breakpoint()
a = 1
b = 2
c = 3
print("ends", a, b, c)
"""

PYTHON = ("--", sys.executable, "train.py")


def test_a_breakpoint_set_in_pudb_after_an_edit_is_at_the_shown_statement(directory: Directory) -> None:
    directory.write(PROGRAM)
    terminal = directory.run_to_prompt(*PYTHON, line=2)
    directory.write(f"# one\n# two\n{PROGRAM}")
    terminal.send("jjjb")
    terminal.wait_for("train.py:5 (")
    assert "# two" not in text_of(terminal)
    terminal.send("c")
    wait_for_prompt(terminal, 5)
    assert "c = 3" in text_of(terminal)
    terminal.send("c")
    assert terminal.exit_status() == 0


def test_sigint_ends_the_job_after_an_interrupt_as_before(processes: Processes, home: Path) -> None:
    (rank,) = start_loop(processes, home, "sleep")
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    assert attach(home, "continue", "0").returncode == 0
    wait_until_states(home, {0: "running"})
    rank.signal(signal.SIGINT)
    assert rank.wait(seconds(20)) == -signal.SIGINT
    rank.wait_for_output("KeyboardInterrupt", stream="stderr")
