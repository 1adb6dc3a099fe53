"""pdb's prompt at its limits: Ctrl-C amid much output, many lines typed ahead, and a paste."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_pdb_sessions import at_prompt, sit, start
from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

AFTER_INTERRUPT = 8 * 1024 * 1024
"""Bytes that may come between Ctrl-C in a flood and the prompt: what the queues on the way hold. A flood that goes on
for seconds has tens of MB."""

AHEAD = 1000

pytestmark = pytest.mark.timeout(seconds(120))


@pytest.fixture
def terminal(
    broker: RunningBroker,
    processes: Processes,
    home: Path,
    open_terminal: OpenTerminal,
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    """A window at the prompt that draws nothing: to draw all bytes would take longer than what is measured."""
    assert broker.port
    start(processes, home)
    terminal = sit(open_terminal)
    monkeypatch.setattr(terminal.virtual, "feed", lambda data: None)
    return terminal


def test_ctrl_c_ends_a_flood(terminal: Terminal) -> None:
    terminal.send("while True: print('y' * 60)\r\r")
    terminal.wait_for(lambda it: len(it.output) > 1_000_000, seconds(60))
    seen = len(terminal.output)
    terminal.send("\x03")
    terminal.wait_for(lambda it: b"KeyboardInterrupt" in it.output[seen:], seconds(60))
    assert terminal.output.index(b"KeyboardInterrupt", seen) - seen <= AFTER_INTERRUPT


def test_a_thousand_lines_typed_ahead_are_run_in_order(terminal: Terminal) -> None:
    for first in range(0, AHEAD, 100):
        terminal.send("".join(f"p 'v', {number}\r" for number in range(first, first + 100)))
        terminal.read_for(0)
    terminal.wait_for(lambda it: b"('v', %d)" % (AHEAD - 1) in it.output, seconds(90))
    shown = [terminal.output.find(b"('v', %d)" % number) for number in range(AHEAD)]
    assert -1 not in shown
    assert shown == sorted(shown)


def test_commands_pasted_at_once_run_one_after_the_other(
    broker: RunningBroker,
    processes: Processes,
    home: Path,
    open_terminal: OpenTerminal,
) -> None:
    assert broker.port
    start(processes, home)
    terminal = sit(open_terminal)
    terminal.send("\x1b[200~p 'first'\np 'second'\nwhatis 3\x1b[201~\r")
    terminal.wait_for("<class 'int'>")
    at_prompt(terminal)
    rows = [row for row in terminal.screen if row]
    begin = rows.index("(Pdb) p 'first'")
    assert rows[begin : begin + 6] == [
        "(Pdb) p 'first'",
        "'first'",
        "(Pdb) p 'second'",
        "'second'",
        "(Pdb) whatis 3",
        "<class 'int'>",
    ]
