"""Recordings from end to end: a real broker that records, a real rank, and the real terminal."""

from __future__ import annotations

import errno
import os
import resource
import sys
from pathlib import Path

from dbg_broker.recording.recorder import RECORDED
from tests.conftest import OpenTerminal
from tests.smoke.test_recording import drawn, read, the_only
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import attach_command
from tests.support.sessions import detach
from tests.support.stopped_rank import WORKING, WORKING_STOP, start_stopped

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
    terminal.wait_for(RECORDED)
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
    broker.process.wait_for_output(os.strerror(errno.EFBIG), stream="stderr")
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
    assert any("are missing here" in data for _, code, data in events if code == "m")
    assert "?" in "".join(data for _, code, data in events if code == "i")
    # The screen was asked for as a whole after the gap.
    assert any("Key Assignments:" in line for line in drawn(header, events).rows)
