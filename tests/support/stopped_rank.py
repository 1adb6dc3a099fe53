"""One rank that is stopped, or about to be, and its entry in the list of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import rows_of_rank
from tests.support.ranks import start_ranks, wait_until, wait_until_stopped
from tests.support.terminal import Terminal

PAUSE = """\
import signal, threading
from dbg_agent import set_trace
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
def pause():
    signal.sigwait({signal.SIGUSR1})
"""
"""The begin of scripts whose ranks wait in ``pause()`` for a SIGUSR1 of the test, which may come before the call."""


WORD = "Größe 日本語 ┌─┐"
"""Characters outside of ASCII, two columns wide, and of line drawing."""

WORKING = f"""\
{PAUSE}
def scaled(number):
    result = number * 10
    return result

def main():
    word = "{WORD}"
    set_trace()
    a = scaled(4)
    b = a + 1
    c = b + 1
    d = c + 1
    e = d + 1
    print("result", e, flush=True)

main()
"""
"""A script that writes ``result 44``."""

SCALED, WORKING_STOP = 8, 13
"""Lines of WORKING: the first inside ``scaled``, and the ``set_trace()`` call."""

COUNTING = """\
import os, signal
import dbg_agent
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
dbg_agent.install()
if "WAITS_FIRST" in os.environ:
    signal.sigwait({signal.SIGUSR1})

def counting(n):
    dbg_agent.set_trace()
    n += 1
    n += 1
    n += 1
    n += 1
    return n

print("counted", counting(0), flush=True)
if "STOPS_TWICE" in os.environ:
    signal.sigwait({signal.SIGUSR1})
    print("counted", counting(10), flush=True)
"""
"""A script whose environment says how often it stops, and whether it first waits for a SIGUSR1 of the test."""

COUNTING_STOP = 9
"""Line of the ``set_trace()`` call of COUNTING; four more lines count."""


def start_stopped(processes: Processes, home: Path, script: str, env: Mapping[str, str] | None = None) -> Child:
    (rank,) = start_ranks(processes, home, script, 1, env=env)
    wait_until_stopped(home, 1)
    return rank


def nobody_there(listed: list[dict[str, Any]]) -> bool:
    return [(rank["driver"], rank["watchers"]) for rank in listed] == [(None, 0)] * len(listed)


def wait_for_list(home: Path, expected: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Return the ranks of ``list --all`` once ``expected`` is true of them; wait as long as the test may last."""
    return wait_until(home, expected, "what the test waits for", listing=("--all",), timeout=math.inf)


def wait_for_whole(terminal: Terminal, home: Path, target: str = "0") -> None:
    """Wait until the rows above the terminal's status line are exactly those of the rank's screen."""
    expected = rows_of_rank(home, target)
    terminal.wait_for(lambda terminal: terminal.screen[:-1] == expected)
    assert len(expected) == len(terminal.screen) - 1


def wait_for_status(terminal: Terminal, *words: str) -> None:
    terminal.wait_for(lambda terminal: all(word in terminal.row(-1) for word in words))


def wait_until_gone(terminal: Terminal, text: str) -> None:
    terminal.wait_for(lambda terminal: text not in "\n".join(terminal.screen))


def let_end(terminal: Terminal, rank: Child, result: int = 44) -> None:
    """Type ``c``, and check that terminal and rank end, and that the rank's output is whole."""
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text() == f"result {result}\n"
