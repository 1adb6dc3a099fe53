"""Chosen ranks stop, and the other ranks wait for them outside of collectives, as long as the stops last."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.smoke.test_hold_and_crash import ONCE
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    start_ranks,
    texts,
    wait_until,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.time_unit import seconds


def test_without_hold_the_others_go_on_at_once(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 2, env={"DBG_HOLD": "0"})
    assert ranks[1].wait() == 0
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


def test_ctrl_c_and_exit_are_no_crashes(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    head = "import dbg_agent, sys, time\ndbg_agent.install(post_mortem=True, lease=600)\n"
    (rank,) = start_ranks(processes, home, f"{head}sys.exit(3)\n", 1, name="exits")
    assert rank.wait() == 3
    (rank,) = start_ranks(processes, home, f"{head}print('up', flush=True)\ntime.sleep(600)\n", 1, name="interrupted")
    rank.wait_for_output("up")
    # A Ctrl-C during imports would not show as SIGINT in the exit status.
    wait_until_states(home, {0: "running"})
    rank.signal(signal.SIGINT)
    assert rank.wait() == -signal.SIGINT


FULL = """\
import os, sys
from dbg_agent import set_trace
unread, full = os.pipe()
os.set_blocking(full, False)
try:
    while True: os.write(full, b"x" * 4096)
except BlockingIOError:
    pass
os.set_blocking(full, True)
os.dup2(full, 2)
set_trace(ranks=0)
print("went on", flush=True)
"""


def test_a_rank_whose_stderr_is_full_can_be_looked_at_and_let_go(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, FULL, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    assert texts(ask(home, "eval", "all", "6 * 7")) == {"0-1": "42"}
    assert attach(home, "continue", "0").returncode == 0
    for rank in ranks:
        assert rank.wait() == 0
        assert "went on" in rank.text()


SCRIPT = """\
from dbg_agent import install, set_trace

install()
set_trace()
"""


def test_one_that_was_killed_and_two_that_never_came(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 3, world_size=5)
    wait_until_stopped(home, 3)

    all_there = attach(home, "eval", "all", "1 + 1").stdout
    assert all_there.startswith(
        "1 + 1: 3 of 5 ranks have connected: 3-4 never came; 3 answered, 1 value, in <module> rank_script.py:4\n"
    )

    os.kill(ranks[1].pid, signal.SIGSEGV)
    # The rank's guard tells which signal it was, a moment after the broker has seen the end of the process.
    wait_until(home, lambda listed: any(one["exit"] == -11 for one in listed), "the signal", listing=("--all",))

    document = ask(home, "eval", "all", "1 + 1")
    assert (document["asked"], document["answered"]) == (2, 2)
    assert [(one["ranks"], one["state"], one["text"]) for one in document["missing"]] == [
        ("1", "exited", "killed by SIGSEGV"),
        ("3-4", "absent", "never came"),
    ]
    tree = attach(home, "where").stdout.splitlines()[0]
    assert "2 of 3 ranks answered: rank 1 was killed by SIGSEGV " in tree
    assert "3 of 5 ranks have connected: 3-4 never came" in tree
    rows = attach(home, "list").stdout.splitlines()
    assert [row.split()[1] for row in rows[1:]] == ["stopped", "killed", "stopped", "never"]


def test_a_rank_that_does_not_answer_is_named_while_the_others_have(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 3)
    wait_until_stopped(home, 3)
    ranks[1].signal(signal.SIGSTOP)
    try:
        terminal = open_terminal(attach_command("eval", "all", "1 + 1", "--timeout", str(seconds(60))))
        terminal.wait_for(re.compile(r"^2 of 3 answered", re.MULTILINE))
    finally:
        ranks[1].signal(signal.SIGCONT)
    assert terminal.exit_status() == 0, terminal.dump()
    assert "waiting" not in "\n".join(terminal.screen)
    assert "1 + 1: 3 of 3 ranks answered, 1 value" in "\n".join(terminal.screen)
