"""At every end of a session the terminal shows how it ended, is restored, and returns an exit status for scripts."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach, attach_command, wait_until
from tests.support.stopped_rank import start_stopped
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")

SCRIPT = """\
import os, signal, sys
import dbg_agent
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
dbg_agent.install()
if "WAITS_FIRST" in os.environ:
    signal.sigwait({signal.SIGUSR1})
dbg_agent.set_trace()
first = 1
second = 2
if "WAITS" in os.environ:
    signal.sigwait({signal.SIGUSR1})
exec(os.environ.get("ENDS", ""))
"""


def start_one(processes: Processes, home: Path, **variables: str) -> Child:
    return start_stopped(processes, home, SCRIPT, variables)


def attach_with_own_settings(open_terminal: OpenTerminal, home: Path, *arguments: str) -> Terminal:
    """Return a terminal in PuDB whose settings :func:`ended` checks."""
    terminal = open_terminal(with_own_settings(home, attach_command("0", *arguments)))
    terminal.wait_for(DRAWN)
    return terminal


def ended(terminal: Terminal, home: Path) -> tuple[int, str]:
    """Return status and last words of a terminal's program; fail unless it has given the terminal back."""
    status = terminal.exit_status()
    assert_given_back(terminal, home)
    rows = [row for row in terminal.screen if row]
    return status, " ".join(rows[1:])


STEP_OFF_THE_END = "n" * 12

ENDS: dict[str, tuple[str, Callable[[Terminal, Child], None], int]] = {
    "killed": ("", lambda _, rank: rank.kill(), -signal.SIGKILL),
    "crashed": (
        "os.kill(os.getpid(), signal.SIGSEGV)",
        lambda terminal, _: terminal.send(STEP_OFF_THE_END),
        -signal.SIGSEGV,
    ),
    "exception": ("1 / 0", lambda terminal, _: terminal.send(STEP_OFF_THE_END), 1),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_terminal_reports_the_end_and_is_restored(
    how: str, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    last_act, end, rank_status = ENDS[how]
    rank = start_one(processes, home, ENDS=last_act)
    terminal = attach_with_own_settings(open_terminal, home)
    end(terminal, rank)
    assert rank.wait() == rank_status
    status, message = ended(terminal, home)
    assert status == 8
    assert re.fullmatch(r"dbg-attach: [a-z0-9-]+:0 .+", message), message
    # The guard reports a signal after the broker has seen that the rank is gone.
    wait_until(home, lambda listed: [one["exit"] for one in listed] == [rank_status], "its status", listing=("--all",))
    # The only line of the agent in the job's log is that of the stop.
    others = [line for line in rank.text("stderr").splitlines() if "dbg" in line and "rank_script.py" not in line]
    assert others == []
    assert "Exception ignored" not in rank.text("stderr")


def test_the_exit_status_shows_why_attaching_failed(
    broker: RunningBroker, home: Path, open_terminal: OpenTerminal
) -> None:
    assert open_terminal(attach_command("wait", "7", "--for", "0.3"), 24, 120).exit_status() == 6
    assert attach(home, "screen", "7").returncode == 3
    wrong = attach(home, "list", env={"DBG_TOKEN": "wrong" * 8})
    assert wrong.returncode == 5
    assert "wrongwrong" not in wrong.stderr
    broker.kill()
    missing = attach(home, "list")
    assert missing.returncode == 4
    assert broker.url in missing.stderr
