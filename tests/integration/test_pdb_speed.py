"""The time that pdb's prompt needs for much output, for Ctrl-C amid output, and for many lines typed ahead."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.integration.test_pdb_sessions import at_prompt, broker, sit, start  # noqa: F401 - a fixture among them
from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

LINES = 20_000
LINES_SECONDS = 1.5
"""Seconds for LINES lines on a busy machine; a quiet machine takes a third of a second. They took 3 s and more when
each line was a frame of its own."""

INTERRUPT_SECONDS = 0.5
"""Seconds from Ctrl-C in a flood to the prompt; it took 2 to 18 s."""

AHEAD = 1000
AHEAD_SECONDS = 10.0
"""Seconds for AHEAD lines typed ahead on a busy machine; they took 20 to 50 s on a quiet machine when a prompt
looked at every key."""

ROUNDS = 5
"""Measurements of each time at most: the shortest counts, since other load can only add to it."""

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(seconds(120))]


@pytest.fixture
def terminal(
    broker: RunningBroker,  # noqa: F811 - the fixture
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


def took(terminal: Terminal, typed: str, end: bytes) -> float:
    """Send ``typed``; return the seconds until the output has ``end``."""
    seen = len(terminal.output)
    begun = time.monotonic()
    terminal.send(typed)
    terminal.wait_for(lambda it: end in it.output[seen:], seconds(60))
    return time.monotonic() - begun


def best_of(measure: list[float], most: float) -> bool:
    return bool(measure) and min(measure) <= seconds(most)


def test_twenty_thousand_lines_come_at_once(terminal: Terminal) -> None:
    times: list[float] = []
    while not best_of(times, LINES_SECONDS) and len(times) < ROUNDS:
        last = b"line %d end" % (LINES - 1)
        times.append(took(terminal, f"for i in range({LINES}): print(f'line {{i}} end')\r\r", last))
        terminal.read_for(0.3)
    assert best_of(times, LINES_SECONDS), times


def test_ctrl_c_ends_a_flood_at_once(terminal: Terminal) -> None:
    times: list[float] = []
    while not best_of(times, INTERRUPT_SECONDS) and len(times) < ROUNDS:
        seen = len(terminal.output)
        terminal.send("while True: print('y' * 60)\r\r")
        terminal.wait_for(lambda it, seen=seen: len(it.output) > seen + 1_000_000, seconds(60))  # type: ignore[misc]
        times.append(took(terminal, "\x03", b"KeyboardInterrupt"))
        terminal.read_for(0.3)
    assert best_of(times, INTERRUPT_SECONDS), times


def test_a_thousand_lines_typed_ahead_are_run_in_order(terminal: Terminal) -> None:
    times: list[float] = []
    while not best_of(times, AHEAD_SECONDS) and len(times) < ROUNDS:
        seen = len(terminal.output)
        begun = time.monotonic()
        for first in range(0, AHEAD, 100):
            terminal.send("".join(f"p 'v', {number}\r" for number in range(first, first + 100)))
            terminal.read_for(0)
        terminal.wait_for(lambda it, seen=seen: b"('v', %d)" % (AHEAD - 1) in it.output[seen:], seconds(90))  # type: ignore[misc]
        times.append(time.monotonic() - begun)
        shown = [terminal.output.find(b"('v', %d)" % number, seen) for number in range(AHEAD)]
        assert -1 not in shown
        assert shown == sorted(shown)
        terminal.read_for(0.3)
    assert best_of(times, AHEAD_SECONDS), times


def test_commands_pasted_at_once_run_one_after_the_other(
    broker: RunningBroker,  # noqa: F811 - the fixture
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
