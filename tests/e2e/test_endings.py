"""At every end of a session the terminal says how it ended, is given back, and tells scripts by its exit status."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.smoke.test_endings import (
    attach_with_own_settings,
    check_end,
    ended,
    start_one,
)
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_list
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")
STOP = 7
"""Line of the ``set_trace()`` call."""


def silence(terminal: Terminal) -> int:
    """Return the seconds of silence that the status line shows; 0 if it shows none."""
    found = re.search(r":0  silent for (\d+) s ", terminal.row(-1))
    return int(found[1]) if found else 0


def test_keeps_its_terminal_which_says_since_when_and_goes_on(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    terminal = sit_in_pudb(open_terminal, "0")
    rank.signal(signal.SIGSTOP)
    terminal.wait_for(silence)
    assert DRAWN in "\n".join(terminal.screen)
    assert attach_list(home)[0]["state"] == "unresponsive"
    seconds_shown = silence(terminal)
    terminal.wait_for(lambda terminal: silence(terminal) > seconds_shown)
    terminal.send("n")
    rank.signal(signal.SIGCONT)
    wait_for_line(terminal, STOP + 1)
    assert line_after_all_keys(terminal, home) == STOP + 1
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0


def test_7_the_rank_went_on(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_one(processes, home, WAITS="1")
    terminal = attach_with_own_settings(open_terminal, home)
    assert attach(home, "continue", "0").returncode == 0
    status, said = ended(terminal, home)
    assert status == 7
    assert re.match(r'[a-z0-9-]+:0 went on: "[^"]+@[^"]+" ', said)
    rank.signal(signal.SIGUSR1)
    assert rank.wait() == 0


@pytest.mark.parametrize("how", ["crashed", "end of script"])
def test_the_terminal_says_how_and_is_given_back(
    how: str, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    check_end(how, processes, home, open_terminal)
