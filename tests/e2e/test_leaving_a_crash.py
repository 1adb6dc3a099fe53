"""The question of ``q`` at a kept crash: it says that the exception ends the program, not that the program goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach_command, start_ranks, wait_until_states
from tests.support.sessions import COLUMNS, ROWS

INSTALL = "import dbg_agent\ndbg_agent.install(post_mortem=True, lease=600)\n"
RAISES = f"{INSTALL}raise ValueError('bad batch')\n"
CATCHES = f"{INSTALL}try:\n    raise ValueError('bad batch')\nexcept ValueError:\n    dbg_agent.post_mortem()\n"
THREAD = (
    f"{INSTALL}import threading\ndef fails():\n    raise ValueError('bad batch')\n"
    "thread = threading.Thread(target=fails)\nthread.start()\nthread.join()\n"
)


@pytest.mark.parametrize(
    "case",
    [
        (RAISES, "pudb", "let this rank end by its exception"),
        (RAISES, "pdb", "let this rank end by its exception"),
        (THREAD, "pudb", "let this thread end by its exception"),
        (CATCHES, "pdb", "let the program go on behind post_mortem()"),
    ],
    ids=["pudb", "pdb", "thread", "caught"],
)
def test_q_says_what_letting_go_of_a_crash_does(
    processes: Processes, home: Path, open_terminal: OpenTerminal, *, case: tuple[str, str, str]
) -> None:
    program, engine, says = case
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, program, 1, env={"DBG_ENGINE": engine})
    wait_until_states(home, {0: "stopped"})
    terminal = open_terminal(attach_command("0"), rows=ROWS, cols=COLUMNS)
    if engine == "pudb":
        terminal.wait_for("bad batch")
        terminal.send("\r")  # PuDB shows the exception first
        terminal.wait_for(lambda it: it.row(0).startswith("PuDB") and "Variables" in "\n".join(it.screen))
    else:
        terminal.wait_for("(Pdb)")
    terminal.send("q" if engine == "pudb" else "q\r")
    asked = terminal.wait_for(says)
    assert "let it run" not in asked
    terminal.send("c" if engine == "pudb" else "c\r")
    assert rank.wait() == (program is RAISES)
    if program is RAISES:
        terminal.wait_for("ended with ValueError: bad batch (status 1)")
        assert terminal.exit_status() == 8
