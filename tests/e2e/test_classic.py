"""Stock debuggers in scripts of users, with the real broker and the real terminal in a window."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

HOST = socket.gethostname().partition(".")[0]
COLUMNS, ROWS = 100, 30

PUDB_SCRIPT = """\
import sys
from pudb.remote import set_trace

def train(rank):
    loss = 0.25 + rank
    set_trace(host="127.0.0.1", port={port}, term_size=({columns}, {rows}), reverse=True)
    print("epoch one of rank", rank)
    loss = loss / 2
    for epoch in range(3):
        print("epoch", epoch)
    return open({fifo!r}).read()

sys.__stdout__.write(train(int(sys.argv[1])))
"""

PDB_SCRIPT = """\
from remote_pdb import RemotePdb

def train():
    loss = 0.25
    RemotePdb("127.0.0.1", 0).set_trace()
    for epoch in range(3):
        loss = loss / 2
    return loss

print("trained to", train(), flush=True)
"""

INSTALLED_SCRIPT = """\
from dbg_agent import install, uninstall

install(classic=True)

from pudb.remote import set_trace
import remote_pdb

def train():
    set_trace(host="192.0.2.1", port=6899, term_size=(240, 72), reverse=True)
    remote_pdb.RemotePdb("192.0.2.1", 4444).set_trace()
    remote_pdb.set_trace()
    return 7

print("trained to", train(), flush=True)
uninstall()
import pudb.remote
print("restored:", pudb.remote.set_trace.__module__, remote_pdb.RemotePdb.__init__.__module__, flush=True)
"""

Open = Callable[..., Terminal]


@pytest.fixture
def broker(processes: Processes, home: Path) -> RunningBroker:
    """Run a broker with a classic port."""
    return running_broker(processes, home, "--classic", "0")


def classic_port(broker: RunningBroker) -> int:
    return int(broker.process.wait_for_output(r"stock PuDB.* port=([0-9]+)")[1])


def start_pudb(processes: Processes, broker: RunningBroker, rank: int, home: Path) -> Child:
    """Start a script with stock PuDB, configured so that PuDB shows no welcome."""
    config = home / "config" / "pudb"
    config.mkdir(parents=True, exist_ok=True)
    (config / "pudb.cfg").write_text("[pudb]\nseen_welcome = z\n")
    script = home / f"stock{rank}.py"
    os.mkfifo(home / f"fifo{rank}")
    fifo = str(home / f"fifo{rank}")
    script.write_text(PUDB_SCRIPT.format(port=classic_port(broker), columns=COLUMNS, rows=ROWS, fifo=fifo))
    variables = {**os.environ, "XDG_CONFIG_HOME": str(config.parent)}
    return processes.start(f"stock{rank}", [sys.executable, str(script), str(rank)], env=variables)


def start_pdb(processes: Processes, home: Path) -> tuple[Child, int]:
    """Start a script with stock remote_pdb, and return the port that it listens on."""
    script = home / "listening.py"
    script.write_text(PDB_SCRIPT)
    child = processes.start("listening", [sys.executable, str(script)])
    told = child.wait_for_output(r"session open at 127\.0\.0\.1:([0-9]+)", stream="stderr")
    return child, int(told[1])


def debugger_rows(terminal: Terminal) -> list[str]:
    """Return what the debugger shows, without the status line."""
    return terminal.screen[:ROWS]


def at_line(text: str) -> re.Pattern[str]:
    """Return a pattern of PuDB's row of the current line."""
    return re.compile(rf"^[ *]?>[* ]?\s*{re.escape(text)}", re.MULTILINE)


def test_four_scripts_at_once_are_four_sessions(processes: Processes, home: Path, broker: RunningBroker) -> None:
    scripts = [start_pudb(processes, broker, rank, home) for rank in range(4)]
    listed = wait_until_stopped(home, 4)
    assert sorted(rank["address"] for rank in listed) == [f"{HOST}:?{number}" for number in (1, 2, 3, 4)]
    assert {(rank["job"], rank["engine"], rank["reason"]) for rank in listed} == {("classic", "pudb", "breakpoint")}
    shown = attach(home, "list")
    assert f"{HOST}:?4  stopped" in shown.stdout
    assert all(script.exit_status is None for script in scripts)


def test_a_session_is_left_and_rejoined_with_the_same_screen(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    script = start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    first = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    first.wait_for(at_line('print("epoch one'))
    first.send("n")
    first.wait_for(at_line("loss = loss / 2"))
    first.wait_for("the program printed: epoch one of rank 0")
    first.send("b")
    first.wait_for(re.compile(r"Breakpoints:\s*$(?:.*\n)+?.*stock0", re.MULTILINE))
    before = debugger_rows(first)
    first.send("\x1dd")
    assert first.exit_status() == 0
    again = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    again.wait_for(lambda terminal: debugger_rows(terminal) == before)
    watcher = open_terminal(attach_command("--watch", "?1"), rows=ROWS + 1, cols=COLUMNS)
    watcher.wait_for(lambda terminal: debugger_rows(terminal) == before)
    again.send("n")
    for terminal in (again, watcher):
        terminal.wait_for(at_line("for epoch in range(3):"))
    assert script.exit_status is None


@pytest.mark.parametrize("how", ["kill", "close_window"])
def test_losing_the_terminal_harms_nothing(
    how: str, processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    script = start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    lost = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    lost.wait_for(at_line('print("epoch one'))
    getattr(lost, how)()
    driver = open_terminal(attach_command("--take", "?1"), rows=ROWS + 1, cols=COLUMNS)
    driver.wait_for(at_line('print("epoch one'))
    driver.send("c")
    driver.wait_for(re.compile(r"^epoch one of rank 0\nepoch 0\nepoch 1\nepoch 2$", re.MULTILINE))
    driver.wait_for(re.compile(rf"{re.escape(HOST)}:\?1 +running"))
    driver.send("q")
    driver.wait_for("discarded: 'q'")
    (home / "fifo0").write_text("trained")
    assert driver.exit_status() == 8
    assert script.wait() == 0
    assert "trained" in script.text()


def test_a_window_that_is_too_small_is_told_so(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    small = open_terminal(attach_command("?1"), rows=15, cols=80)
    small.wait_for(re.compile(rf"enlarge this window: the screen has [0-9]+x{ROWS}"))
    small.wait_for(re.compile(r"\APuDB .*\?:help"))
    small.resize(ROWS + 1, COLUMNS)
    small.wait_for(lambda terminal: "enlarge" not in terminal.row(-1))
    small.wait_for(at_line('print("epoch one'))


def test_what_can_not_be_done_says_what_to_do(processes: Processes, home: Path, broker: RunningBroker) -> None:
    script = start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    for action, word in (("continue", "type"), ("screen", "attach")):
        result = attach(home, action, "?1")
        assert result.returncode == 1
        assert word in result.stdout + result.stderr
    assert script.exit_status is None


def test_quitting_ends_the_program_and_the_session(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    script = start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    other = start_pudb(processes, broker, 1, home)
    wait_until_stopped(home, 2)
    terminal = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    terminal.wait_for("PuDB ")
    terminal.send("q")
    assert terminal.exit_status() == 8
    assert script.wait() == 1
    assert other.exit_status is None
    assert [rank["state"] for rank in attach_list(home)] == ["stopped"]
    assert {rank["state"] for rank in attach_list(home, "--all")} == {"stopped", "exited"}


def test_a_listening_remote_pdb_is_dialled_left_and_rejoined(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    script, port = start_pdb(processes, home)
    target = f"tcp://127.0.0.1:{port}"
    first = open_terminal(attach_command(target), rows=24, cols=100)
    first.wait_for("(Pdb)")
    first.send("loss * 4\r")
    first.wait_for(re.compile(r"^1\.0$", re.MULTILINE))
    (listed,) = wait_until_stopped(home, 1)
    assert (listed["address"], listed["engine"]) == (f"{HOST}:?1", "pdb")
    assert listed["where"]["function"] == "train"
    first.kill()
    again = open_terminal(attach_command("--take", target), rows=24, cols=100)
    again.wait_for(re.compile(r"loss \* 4\n1\.0"))
    again.send("n\r")
    again.wait_for("loss = loss / 2")
    again.send("c\r")
    assert again.exit_status() == 8
    assert script.wait() == 0
    assert "trained to 0.03125" in script.text()


def test_what_can_not_be_dialled_is_said_in_one_sentence(
    home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    for target, sentence, status in (
        ("tcp://10.0.0.1:4444", "no loopback address", 1),
        ("tcp://127.0.0.1:1", "nothing answers", 1),
        ("tcp://nowhere", "no address of a debugger", 2),
    ):
        terminal = open_terminal(attach_command(target), rows=24, cols=100)
        terminal.wait_for(sentence)
        assert terminal.exit_status() == status


def test_strangers_at_the_port_harm_no_session(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    terminal = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    terminal.wait_for(at_line('print("epoch one'))
    port = classic_port(broker)
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfb\x1f", b"\x16\x03\x01\x00", bytes(range(256)) * 4096):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.settimeout(seconds(10))
            try:
                stranger.sendall(said)
                assert stranger.recv(1000)
            except ConnectionError:
                assert len(said) > 1000
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
    try:
        terminal.send("n")
        terminal.wait_for(at_line("loss = loss / 2"))
    finally:
        for stranger in silent:
            stranger.close()
    assert [rank["address"] for rank in attach_list(home)] == [f"{HOST}:?1"]


def test_stock_calls_go_through_the_agent_where_that_was_asked_for(
    processes: Processes, home: Path, broker: RunningBroker
) -> None:
    script = start_ranks(processes, home, INSTALLED_SCRIPT, 1)[0]
    seen: list[int] = []
    for _ in range(3):
        stopped = wait_until_stopped(home, 1)[0]
        assert (stopped["pid"], stopped["where"]["function"]) == (script.pid, "train")
        seen.append(stopped["where"]["line"])
        assert attach(home, "continue", "0").returncode == 0
    assert script.wait() == 0
    assert len(set(seen)) == 3
    assert "trained to 7" in script.text()
    assert "restored: pudb.remote remote_pdb" in script.text()
