"""A rank that closes all its descriptors at a stop, as daemons do, keeps the stop, and its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states
from tests.support.sessions import COLUMNS, ROWS

CLOSES = """\
import os, sys, dbg_agent

def becomes_daemon(root):
    os.chroot(root)
    os.closerange(3, 1024)
    mine = [os.open("file", os.O_CREAT | os.O_RDWR) for _ in range(40)]
    return mine

root = {root!r}
os.makedirs(root, exist_ok=True)
os.chdir(root)
dbg_agent.set_trace()
mine = becomes_daemon(root)
intact = len({{os.fstat(number).st_ino for number in mine}}) == 1 and os.path.getsize("file") == 0
sys.exit(0 if intact else 7)
"""


@pytest.mark.parametrize(
    ("is_jailed", "is_named"), [(False, False), (True, False), (True, True)], ids=["closes", "chroot", "chroot-named"]
)
def test_a_stop_outlives_descriptors_and_root_directory(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal, *, is_jailed: bool, is_named: bool
) -> None:
    broker = running_broker(processes, home)
    # In an empty root directory nobody says which address a name has.
    address = f"localhost:{broker.port}#{broker.rendezvous['fingerprint']}"
    variables = {"DBG_BROKER": address, "DBG_TOKEN": broker.tokens["rank"]} if is_named else {}
    program = CLOSES.format(root=str(tmp_path / "root"))
    if not is_jailed:
        program = program.replace("    os.chroot(root)\n", "")
    (rank,) = start_ranks(processes, home, program, 1, env={"DBG_ENGINE": "pdb", **variables})
    wait_until_states(home, {0: "stopped"})
    terminal = open_terminal(attach_command("0"), rows=ROWS, cols=COLUMNS)
    terminal.wait_for("(Pdb)")
    terminal.send("n\r")
    terminal.wait_for("-> intact")
    terminal.send("p 6 * 7000\r")
    terminal.wait_for("42000")
    assert attach(home, "eval", "0", "6 * 8").stdout.endswith(" 0  48\n")
    assert "rank_script.py" in attach(home, "where", "0").stdout
    terminal.send("n\r")
    terminal.wait_for("-> sys.exit")
    terminal.send("c\r")
    assert rank.wait() == 0
