"""Questions, keys and signals at the worst moments never reach the program, and never keep it for ever."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from dbg_agent.stop.stops import CRASHED_CANT_MOVE
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    start_ranks,
    texts,
    wait_until,
    wait_until_states,
)
from tests.support.time_unit import seconds

HOSTILE = """\
import sys
import dbg_agent
class Exits(Exception):
    def __str__(self): raise SystemExit(5)
class Endless(Exception):
    def __str__(self):
        while True: pass
class Deletes:
    def __repr__(self):
        del sys.stdout
        return "deleted"
class Stubborn:
    def __repr__(self):
        for _ in range(2):
            try:
                while True: pass
            except BaseException: pass
        return "over"
def throw(error):
    raise error
dbg_agent.set_trace()
print("ended well", flush=True)
"""


def one_rank(
    processes: Processes, home: Path, script: str, state: str = "stopped", env: Mapping[str, str] = {}
) -> Child:
    """Start a broker and a rank, and return the rank once it is in a state."""
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, script, 1, env=env)
    wait_until_states(home, {0: state})
    return rank


def end_well(home: Path, rank: Child) -> None:
    assert attach(home, "continue", "all").returncode == 0
    assert rank.wait(seconds(20)) == 0
    assert "ended well" in rank.text()
    assert "Traceback" not in rank.text("stderr")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("eval", "throw(Exits())"), "Exits: its str raises SystemExit"),
        (("eval", "throw(Endless())", "--timeout", "2"), "Endless: its str raises KeyboardInterrupt"),
        (("eval", "Deletes()"), "deleted"),
        (("command", "interact"), "interact"),
        (("command", "x = '''"), "unterminated"),
    ],
)
def test_hostile_expressions_neither_end_the_stop_nor_block_the_rank(
    processes: Processes, home: Path, question: tuple[str, ...], answer: str
) -> None:
    rank = one_rank(processes, home, HOSTILE)
    assert answer in texts(ask(home, question[0], "0", *question[1:]))["0"]
    assert texts(ask(home, "eval", "0", "6 * 7")) == {"0": "42"}
    end_well(home, rank)


def test_an_expression_that_catches_its_interrupt_is_interrupted_again(processes: Processes, home: Path) -> None:
    rank = one_rank(processes, home, HOSTILE)
    ask(home, "eval", "0", "repr(Stubborn())", "--timeout", "1")
    assert texts(ask(home, "eval", "0", "6 * 7")) == {"0": "42"}
    end_well(home, rank)


def test_the_deadline_of_a_question_does_not_interrupt_an_open_prompt(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = one_rank(processes, home, HOSTILE)
    terminal = open_terminal(attach_command("0", "--engine", "pdb"), rows=24, cols=100)
    terminal.wait_for("(Pdb)")
    terminal.send(b"interact\r")
    terminal.wait_for(">>>")
    assert texts(ask(home, "eval", "0", "6 * 7", "--timeout", "0.5")) == {"0": "42"}
    # This sleep in the rank outlasts the deadline of the question before.
    assert texts(ask(home, "eval", "0", "__import__('time').sleep(1)")) == {"0": "None"}
    terminal.send(b"'pro' + 'mpt'\r")
    terminal.wait_for("'prompt'")
    end_well(home, rank)


def test_a_rank_continues_from_a_stop_within_its_logging(processes: Processes, home: Path) -> None:
    script = (
        "import logging, os, time, dbg_agent\n"
        "logging.basicConfig(level=logging.DEBUG, filename='log')\n"
        "dbg_agent.install()\n"
        "class Stops:\n"
        "    def __str__(self):\n"
        "        dbg_agent.set_trace()\n"
        "        return 'here'\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "logging.info('%s', Stops())\n"
        "print('ended well', flush=True)\n"
    )
    rank = one_rank(processes, home, script, "running")
    (home / "homes" / "rank0" / "go").touch()
    wait_until_states(home, {0: "stopped"})
    end_well(home, rank)
    assert "websockets" not in (home / "homes" / "rank0" / "log").read_text()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("signal.signal(SIGNAL, signal.SIG_DFL)", "error"),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [SIGNAL])", "running"),
    ],
)
def test_an_interrupt_does_not_end_a_program_that_changed_its_signals(
    processes: Processes, home: Path, change: str, kind: str
) -> None:
    running_broker(processes, home)
    script = (
        "import os, signal, time, dbg_agent\n"
        "dbg_agent.install()\n"
        "SIGNAL = signal.SIGRTMIN + 7\n"
        f"{change}\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists('end'): time.sleep(0.05)\n"
        "dbg_agent.uninstall()\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [SIGNAL])\n"
        "print('ended well', flush=True)\n"
    )
    (rank,) = start_ranks(processes, home, script, 1)
    rank.wait_for_output("ready")
    wait_until_states(home, {0: "running"})
    assert [group["kind"] for group in ask(home, "interrupt", "0")["groups"]] == [kind]
    (home / "homes" / "rank0" / "end").touch()
    assert rank.wait(seconds(20)) == 0
    assert "ended well" in rank.text()


THREADS = """\
import os, threading, time
import dbg_agent
dbg_agent.install()
def first():
    dbg_agent.set_trace(ranks=0)
    print("first went on", flush=True)
def second():
    # Behind the other thread, however long that takes to come.
    while not os.path.exists(os.environ["DBG_HOME"] + "/go"):
        time.sleep(0.01)
    dbg_agent.set_trace(ranks=0)
    print("second went on", flush=True)
"""


def test_each_held_thread_waits_for_its_own_stop(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = THREADS + "for call in (first, second): threading.Thread(target=call).start()\n"
    chosen, held = start_ranks(processes, home, script, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    (home / "go").touch()
    wait_until(home, lambda listed: [rank["queued"] for rank in listed] == [1, 1], "two threads each")
    assert attach(home, "continue", "0").returncode == 0
    held.wait_for_output("first went on")
    wait_until_states(home, {0: "stopped", 1: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert [rank.wait(seconds(20)) for rank in (chosen, held)] == [0, 0]
    assert "second went on" in held.text()


def test_an_interrupt_of_a_held_exit_prints_no_traceback(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = (
        "import os, time, dbg_agent\n"
        "dbg_agent.install(post_mortem=True, lease=600)\n"
        "if os.environ['RANK'] == '1': raise ValueError\n"
        "while not os.path.exists(os.environ['DBG_HOME'] + '/crashed'): time.sleep(0.05)\n"
    )
    ranks = start_ranks(processes, home, script, 2)
    wait_until(home, lambda listed: [rank["reason"] for rank in listed] == [None, "crash"], "a crash")
    # Rank 0 answers after the message that rank 1 is kept as a crash.
    assert attach(home, "where", "0").returncode == 0
    (home / "crashed").touch()
    wait_until_states(home, {0: "held", 1: "stopped"})
    ranks[0].signal(signal.SIGINT)
    assert ranks[0].wait(seconds(20)) == 0
    assert "Traceback" not in ranks[0].text("stderr")
    assert attach(home, "continue", "1").returncode == 0
    assert ranks[1].wait() == 1


def test_a_crash_is_kept_after_stepping_through_its_exception(processes: Processes, home: Path) -> None:
    script = (
        "import dbg_agent\n"
        "dbg_agent.install(post_mortem=True, lease=600)\n"
        "def fail():\n"
        "    dbg_agent.set_trace()\n"
        "    raise ValueError('boom')\n"
        "fail()\n"
    )
    rank = one_rank(processes, home, script, "stopped", env={"DBG_ENGINE": "pdb"})
    for _ in range(20):
        if "running" in texts(ask(home, "command", "0", "n")).get("0", ""):
            break
    wait_until(home, lambda listed: [one["reason"] for one in listed] == ["crash"], "a crash")
    assert CRASHED_CANT_MOVE in texts(ask(home, "command", "0", "n"))["0"]
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait(seconds(20)) == 1
    assert "Exception ignored" not in rank.text("stderr")


def test_the_stack_of_a_crash_shows_the_line_that_raised(processes: Processes, home: Path) -> None:
    script = (
        "import dbg_agent\n"
        "dbg_agent.install(post_mortem=True, lease=600)\n"
        "def fail():\n"
        "    try:\n"
        "        raise ValueError('boom')\n"
        "    finally:\n"
        "        print('on its way out')\n"
        "fail()\n"
    )
    rank = one_rank(processes, home, script)
    assert "rank_script.py(5)fail()" in texts(ask(home, "command", "0", "w"))["0"]
    # SIGINT ends the rank without a second traceback.
    rank.signal(signal.SIGINT)
    assert rank.wait(seconds(20)) == 1
    assert rank.text("stderr").count("Traceback") == 1


@pytest.mark.parametrize("engine", ["pudb", "pdb"])
def test_no_frame_stays_traced_after_a_stop_and_its_breakpoints(processes: Processes, home: Path, engine: str) -> None:
    script = (
        "import os, sys, time, dbg_agent\n"
        "dbg_agent.install()\n"
        "def step():\n"
        "    time.sleep(0.01)\n"
        "while not os.path.exists('end'):\n"
        "    step()\n"
        "print(sys.gettrace(), sys._getframe().f_trace, 'ended well', flush=True)\n"
    )
    rank = one_rank(processes, home, script, "running", env={"DBG_ENGINE": engine})
    assert attach(home, "interrupt", "0").returncode == 0
    ask(home, "command", "0", f"b {home / 'rank_script.py'}:4")
    ask(home, "command", "0", "c")
    wait_until(home, lambda listed: [one["reason"] for one in listed] == ["breakpoint"], "the breakpoint")
    ask(home, "command", "0", f"clear {home / 'rank_script.py'}:4")
    (home / "homes" / "rank0" / "end").touch()
    end_well(home, rank)
    assert "None None ended well" in rank.text()
