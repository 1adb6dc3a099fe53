"""A rank in an IDE and in a terminal at the same time: who types is told in both, and the keyboard goes to and fro."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.ide import ide
from tests.support.processes import Processes
from tests.support.ranks import attach_command, start_ranks, wait_until_states


@pytest.mark.parametrize("by_console", [False, True], ids=["button", "console"])
def test_an_ide_that_pauses_a_rank_types_there_and_a_terminal_that_waited_looks_on(
    processes: Processes, home: Path, open_terminal: OpenTerminal, *, by_console: bool
) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, "import time, dbg_agent\ndbg_agent.install()\nwhile True:\n    time.sleep(0.01)\n", 1)
    wait_until_states(home, {0: "running"})
    with ide(home) as window:
        window.attach()
        (thread,) = window.threads().values()
        terminal = open_terminal(attach_command("wait", "0"), rows=30, cols=140)
        terminal.wait_for("Waiting for 0 to stop")
        if by_console:
            assert "stopped" in window.evaluate("pause 0")
        else:
            window.request("pause", {"threadId": thread})
        assert window.stopped(thread)["reason"] == "pause"
        window.request("next", {"threadId": thread})
        assert window.stopped(thread)["reason"] == "step"
        terminal.wait_for("(VS Code) types")
        window.leave()
