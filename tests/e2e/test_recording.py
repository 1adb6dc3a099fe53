"""Recordings from end to end: a real broker that records, a real rank, and the real terminal."""

from __future__ import annotations

import json
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
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
    """Return the screen after these events."""
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
    terminal.wait_for("this session is recorded")
    terminal.send("n")
    # Drawn, and not only reported: a rank sends no drawing once its terminal has left.
    terminal.wait_for(f"main rank_script.py:{WORKING_STOP + 1}")
    detach(terminal)
    terminal = open_terminal(attach_command("0", "--engine", "pdb"))
    terminal.wait_for("this session is recorded")
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

    player = [sys.executable, "-m", "asciinema", "cat", str(path)]
    printed = subprocess.run(player, capture_output=True, timeout=60, check=True).stdout
    assert b"(Pdb) p 40 + 2\r\n42\r\n(Pdb) c\r\n" in printed


STOCK = """\
from remote_pdb import RemotePdb

RemotePdb("127.0.0.1", 0).set_trace()
loss = 0.25
print("done", flush=True)
"""


def test_a_stock_session_is_recorded_and_a_stop_goes_on_in_a_new_file_after_a_restart(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    folder = tmp_path / "casts"
    broker = running_broker(processes, home, "--record", str(folder), "-v")
    script = tmp_path / "stock.py"
    script.write_text(STOCK)
    stock = processes.start("stock", [sys.executable, str(script)])
    port = stock.wait_for_output(r"127\.0\.0\.1:(\d+)", stream="stderr")[1]
    start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.wait_for("this session is recorded")
    broker.process.wait_for_output("the recording .* begins", stream="stderr")
    broker.kill()
    broker.restart()
    terminal.send("?")
    terminal.wait_for("Key Assignments:")
    window = open_terminal(attach_command(f"tcp://127.0.0.1:{port}"))
    window.wait_for("(Pdb)")
    window.send("p 6 * 7\r")
    window.wait_for("42")
    window.send("c\r")
    stock.wait()
    broker.process.terminate()
    broker.process.wait()
    (of_stock,) = folder.glob("classic/*.cast")
    said = [line.rstrip() for line in drawn(*read(of_stock)).rows]
    assert "(Pdb) p 6 * 7" in said
    assert said[said.index("(Pdb) p 6 * 7") + 1] == "42"
    first, second = sorted(
        (path for path in folder.glob("*/*") if path != of_stock), key=lambda path: path.stat().st_mtime
    )
    assert not any("continues" in data for _, code, data in read(first)[1] if code == "m")
    header, events = read(second)
    assert any("continues a session" in data for _, code, data in events if code == "m")
    rows = drawn(header, events).rows
    assert any("Key Assignments:" in row for row in rows)
    assert rows[0].startswith("PuDB")


def test_a_full_disk_stops_no_terminal_and_the_file_says_what_is_missing(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    """The limit of a file's size is what a full disk is; it is lifted later."""
    folder = tmp_path / "casts"
    broker = running_broker(processes, home, "--record", str(folder), "--record-input")
    pid = broker.process.pid
    start_stopped(processes, home, WORKING)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    terminal = sit_in_pudb(open_terminal, "0")
    broker.process.wait_for_output("a recording can't be written", stream="stderr")
    terminal.send("n")
    wait_for_line(terminal, WORKING_STOP + 1)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    terminal.send("n")
    wait_for_line(terminal, WORKING_STOP + 2)
    terminal.send("?")
    terminal.wait_for("Key Assignments:")
    detach(terminal)
    broker.process.terminate()
    broker.process.wait()
    header, events = read(the_only(folder))
    assert any("bytes of output are missing here" in data for _, code, data in events if code == "m")
    assert "?" in "".join(data for _, code, data in events if code == "i")
    # The screen was asked for as a whole after the gap.
    assert any("Key Assignments:" in line for line in drawn(header, events).rows)


def test_a_directory_that_cannot_be_used_is_refused_at_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "dbg_broker", "serve", "--record", str(tmp_path / "file" / "casts")]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert "can't be written (Not a directory)" in refused.stderr
