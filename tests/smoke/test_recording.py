"""Recordings from end to end: a real broker that records, a real rank, and the real terminal."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from dbg_broker.recording.recorder import RECORDED
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import attach_command
from tests.support.screen import VirtualScreen
from tests.support.sessions import detach
from tests.support.stopped_rank import WORKING, WORKING_STOP, start_stopped

Event = tuple[float, str, str]


def the_only(folder: Path) -> Path:
    (path,) = folder.glob("*/*")
    return path


def read(path: Path) -> tuple[dict[str, Any], list[Event]]:
    """Return header and events, strictly as the format has them."""
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    header = json.loads(first)
    assert header["version"] == 2
    assert {*header} <= {"version", "width", "height", "timestamp", "title", "env"}
    assert type(header["timestamp"]) is int
    events: list[Event] = [tuple(json.loads(line)) for line in rest]
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    for _, code, data in events:
        assert code in ("o", "i", "r", "m")
        assert isinstance(data, str)
    return header, events


def drawn(header: dict[str, Any], events: list[Event]) -> VirtualScreen:
    screen = VirtualScreen(header["height"], header["width"])
    for _, code, data in events:
        if code == "o":
            screen.feed(data.encode())
        elif code == "r":
            columns, rows = map(int, data.split("x"))
            screen.resize(rows, columns)
    return screen


def test_pudb_and_pdb_of_one_stop_are_one_recording_that_plays_again(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    folder = tmp_path / "casts"
    broker = running_broker(processes, home, "--record", str(folder))
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.wait_for(RECORDED)
    terminal.send("n")
    # Drawn, and not only reported: a rank sends no drawing once its terminal has left.
    terminal.wait_for(f"main rank_script.py:{WORKING_STOP + 1}")
    detach(terminal)
    terminal = open_terminal(attach_command("0", "--engine", "pdb"))
    terminal.wait_for(RECORDED)
    terminal.wait_for("(Pdb)")
    terminal.send("p 40 + 2\r")
    terminal.wait_for("42")
    terminal.send("c\r")
    rank.wait()
    broker.process.terminate()
    broker.process.wait()
    path = the_only(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    header, events = read(path)
    assert not [event for event in events if event[1] == "i"]
    marks = [data for _, code, data in events if code == "m"]
    assert ", a driver, types" in marks[0]
    assert "the debugger is pdb now" in marks
    assert "nobody types" in marks
    left = next(number for number, event in enumerate(events) if event[2] == "nobody types")
    in_pudb = "\n".join(drawn(header, events[:left]).rows)
    assert "PuDB" in in_pudb
    assert f"main rank_script.py:{WORKING_STOP + 1}" in in_pudb
    in_pdb = [line.rstrip() for line in drawn(header, events).rows]
    assert "(Pdb) p 40 + 2" in in_pdb
    assert in_pdb[in_pdb.index("(Pdb) p 40 + 2") + 1] == "42"
    assert not any("PuDB" in line for line in in_pdb)
