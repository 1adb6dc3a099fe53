"""Recordings from end to end: a real broker, a real rank, and the real terminal, which records what it shows."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from dbg_client.terminal.attach import WENT_ON
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach_command
from tests.support.screen import VirtualScreen
from tests.support.sessions import detach
from tests.support.stopped_rank import WORKING, WORKING_STOP, start_stopped

Event = tuple[float, str, str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.cast"


def read(path: Path) -> tuple[dict[str, Any], list[Event]]:
    """Return header and events, strictly as the format has them."""
    first, *rest = path.read_text(encoding="ascii").splitlines()
    header = json.loads(first)
    assert header["version"] == 2
    assert {*header} == {"version", "width", "height", "timestamp", "env"}
    assert type(header["timestamp"]) is int
    events: list[Event] = [tuple(json.loads(line)) for line in rest]
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    for _, code, data in events:
        assert code in ("o", "i", "r")
        assert isinstance(data, str)
    return header, events


def played(path: Path) -> list[list[str]]:
    """Return the rows of the screen after each piece of output."""
    header, events = read(path)
    screen = VirtualScreen(header["height"], header["width"])
    screens = []
    for _, code, data in events:
        if code == "o":
            screen.feed(data.encode())
        elif code == "r":
            columns, rows = map(int, data.split("x"))
            screen.resize(rows, columns)
        screens.append([row.rstrip() for row in screen.rows])
    return screens


def shows(screens: list[list[str]], text: str) -> bool:
    return any(text in row for rows in screens for row in rows)


def test_pudb_and_pdb_are_replayed_as_they_were_shown(
    processes: Processes, home: Path, path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0", "--record", str(path))
    terminal.send("n")
    terminal.wait_for(f"main rank_script.py:{WORKING_STOP + 1}")
    terminal.resize(30, 90)
    terminal.wait_for(lambda terminal: len(terminal.screen) == 30 and "PuDB" in terminal.row(0))
    detach(terminal)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    screens = played(path)
    assert shows(screens, f"main rank_script.py:{WORKING_STOP + 1}")
    _, events = read(path)
    assert [data for _, code, data in events if code == "r"] == ["90x30"]
    assert {event[1] for event in events} == {"o", "r"}
    # The recording leaves the alternate screen, as the session does.
    assert not shows(screens[-1:], "PuDB")

    in_pdb = path.with_name("pdb.cast")
    terminal = open_terminal(attach_command("0", "--engine", "pdb", "--record", str(in_pdb)))
    terminal.wait_for("(Pdb)")
    terminal.send("p 40 + 2\r")
    terminal.wait_for("42")
    terminal.send("c\r")
    rank.wait()
    assert terminal.exit_status() == WENT_ON
    rows = played(in_pdb)[-1]
    assert rows[rows.index("(Pdb) p 40 + 2") + 1] == "42"
