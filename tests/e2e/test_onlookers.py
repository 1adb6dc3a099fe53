"""What an agent, a program and a command do at ranks shows in the terminals that look on, and who ended a stop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import dbg_client
from tests.conftest import OpenTerminal
from tests.e2e.test_mcp import agent, call
from tests.support.broker import running_broker
from tests.support.ide import ide
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states
from tests.support.terminal import Terminal

TRAIN = """\
import dbg_agent, os, threading
rank = int(os.environ["RANK"])
loss = 0.25
dbg_agent.set_trace(engine="pudb" if rank == 1 else "pdb")
loss += 1
loss += 1
threading.Event().wait()
"""
WENT_ON = 7


def test_terminals_are_told_what_others_do(
    processes: Processes, home: Path, open_terminal: OpenTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBG_HOME", str(home))
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    lines = open_terminal(attach_command("0"), 30, 150)
    lines.wait_for("(Pdb)")
    screen = sit_in_pudb(open_terminal, "1", cols=150)

    asyncio.run(ask_and_step(home, [lines, screen]))
    with dbg_client.connect() as broker:
        broker.job()["0"].command("p loss")
    lines.wait_for(re.compile(r'"\S+@\S+ \(Python\)" ran `p loss`'))
    attach(home, "command", "1", "p loss + 1")
    screen.wait_for(re.compile(r'"\S+@[^ "]+" ran `p loss \+ 1`'))

    asyncio.run(let_go(home))
    for terminal in (lines, screen):
        assert terminal.exit_status() == WENT_ON
        terminal.wait_for(re.compile(r':\d went on: "\S+@\S+ \(claude-code\)" let it go on; --follow waits'))

    watching = open_terminal(attach_command("2", "--watch"), 30, 150)
    watching.wait_for("Attached")
    act_in_an_ide(home, home / "rank_script.py", watching)
    assert watching.exit_status() == WENT_ON


def act_in_an_ide(home: Path, script: Path, watching: Terminal) -> None:
    """Set a breakpoint, a variable, step, and let the rank go on, each seen in the terminal that looks on."""
    who = r'"\S+@\S+ \(VS Code\)"'
    with ide(home) as window:
        window.attach({script: [{"line": 6}]}, target="2")
        watching.wait_for(re.compile(who + " set a breakpoint at rank_script.py:6"))
        thread = window.stop_of(2)
        window.evaluate("loss = 0.5", window.top(thread)["id"])
        watching.wait_for(re.compile(who + " ran `loss = 0.5`"))
        window.request("next", {"threadId": thread})
        window.stopped(thread)
        watching.wait_for(re.compile("rank_script.py:[56] in <module>"))
        window.set_breakpoints(script)
        watching.wait_for(re.compile(who + " cleared a breakpoint at rank_script.py:6"))
        window.go_on(thread)
        watching.wait_for(re.compile(rf"\S+:2 went on: {who} let it go on;"))
        window.leave()


async def ask_and_step(home: Path, terminals: Sequence[Terminal]) -> None:
    """Do what needs an answer, which is the terminals' sign that it was done."""
    async with agent(home, name="claude\n-code") as session:
        await call(session, "eval", expression="loss\\\n+ 1", ranks="0-1")
        for terminal in terminals:
            await asyncio.to_thread(terminal.wait_for, re.compile(r'"\S+@\S+ \(claude\\n-code\)" asked `loss\\ …`'))
        await call(session, "command", command="n", ranks="0-1")
        for terminal in terminals:
            await asyncio.to_thread(terminal.wait_for, re.compile(r'"\S+@\S+ \(claude\\n-code\)" ran `n`'))


async def let_go(home: Path) -> None:
    async with agent(home, name="claude-code") as session:
        await call(session, "continue", ranks="0-1")
