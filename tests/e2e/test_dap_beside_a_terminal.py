"""A rank in an IDE and in a terminal at the same time: who types is told in both, and the keyboard goes to and fro."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.ide import Refused, ide
from tests.support.processes import Processes
from tests.support.ranks import attach_command, start_ranks, wait_until_states
from tests.support.sessions import detach

TRAIN = """\
import dbg_agent
dbg_agent.set_trace()
one = 1
two = 2
three = 3
four = 4
five = 5
"""

TAKE = b"\x1dw"


def test_ide_and_terminal_share_a_stop(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"})
    with ide(home) as window:
        window.attach()
        thread = window.stop_of(0)
        window.request("next", {"threadId": thread})
        window.stopped(thread)
        line = window.top(thread)["line"]
        terminal = open_terminal(attach_command("0"), rows=30, cols=140)
        terminal.wait_for("(VS Code) types")
        terminal.send(TAKE)
        window.printed("`take`")
        with pytest.raises(Refused):
            window.request("next", {"threadId": thread})
        window.forget("stopped")
        terminal.send(b"n\r")
        window.stopped(thread)
        assert window.top(thread)["line"] == line + 1
        # What pdb sets shows up in the IDE.
        terminal.send(b"b 7\r")
        told = window.event("breakpoint", lambda body: body["reason"] == "new")["breakpoint"]
        assert (told["line"], told["verified"], told["message"]) == (7, True, "set in rank 0")
        assert "keyboard" in window.evaluate("take")
        terminal.wait_for("(VS Code) types")
        window.forget("stopped")
        window.go_on(thread)
        window.stopped(thread)
        assert window.top(thread)["line"] == 7
        detach(terminal)
        window.leave()
    wait_until_states(home, {0: "stopped"})
