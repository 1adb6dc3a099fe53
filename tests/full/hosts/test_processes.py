"""Faults of single processes and of the machine they run on, each for itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dbg_wire.errors import BadSecretFile
from tests.conftest import OpenTerminal
from tests.full.hosts.figures import Figures
from tests.full.hosts.lane import SIGN
from tests.full.hosts.stage import KEPT
from tests.full.hosts.table_of_faults import KILLED_TERMINAL
from tests.support.broker import running_broker
from tests.support.processes import Processes, run_command
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.sessions import detach
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds

ASKED = """\
import time
from dbg_agent import set_trace
def waits():
    while True:
        time.sleep(0.01)
set_trace()
"""


def test_a_killed_terminal_loses_only_unsent_keys(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.send("n" * 30)
    wait_for_line(terminal, STOP + 30)
    terminal.kill()
    killed = time.monotonic()
    again = sit_in_pudb(open_terminal, "0")
    again.send("nn")
    wait_for_line(again, STOP + 32)
    back = time.monotonic() - killed
    line = line_after_all_keys(again, home)
    wanted = STOP + 32
    figures = Figures(
        KILLED_TERMINAL.name, "terminal", None, back, keys=32, lost=max(0, wanted - line), doubled=max(0, line - wanted)
    )
    print(figures)  # noqa: T201 - for the table in docs/reliability.md
    assert (figures.lost, figures.doubled) == (0, 0)
    assert back <= seconds(KILLED_TERMINAL.back)
    detach(again)


def test_a_question_shows_the_number_of_answers_when_its_broker_dies(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, home)
    start_ranks(processes, home, ASKED, 3)
    wait_until_stopped(home, 3)
    expression = "waits() if __import__('os').environ['RANK'] == '2' else 1"
    asking = open_terminal(attach_command("eval", "all", expression, "--timeout", "60"), 12, 140)
    asking.wait_for("2 of 3")
    broker.kill()
    assert asking.exit_status() == 6
    assert any("2 of 3" in row for row in asking.screen)


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    """A file system of 128 KiB in the place of the home; skip without the right to mount one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk takes root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "tmpfs", str(home)], check=True)
    yield home
    subprocess.run(["umount", "--lazy", str(home)], check=True)


def fill(disk: Path) -> Path:
    """Fill a disk to its last byte."""
    filler = disk / "filler"
    left = os.statvfs(disk)
    filler.write_bytes(bytes(left.f_bfree * left.f_bsize))
    with pytest.raises(OSError, match="No space left"):
        (disk / "more").write_bytes(b"x")
    (disk / "more").unlink()
    return filler


def test_a_full_disk_stops_neither_keys_nor_questions_and_lost_audit_entries_are_reported(
    small_disk: Path, processes: Processes, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, small_disk)
    start_ranks(processes, small_disk, STRAIGHT, 1)
    wait_until_stopped(small_disk, 1)
    terminal = sit_in_pudb(open_terminal, "0")
    filler = fill(small_disk)
    terminal.send("n" * 5)
    wait_for_line(terminal, STOP + 5)
    for _ in range(2):
        # The log's last page may have room for the first long question.
        assert attach(small_disk, "eval", "0", f"len({'x' * 5000!r})").returncode == 0
    broker.process.wait_for_output(r"audit log .*No space left on device", stream="stderr")
    filler.unlink()
    assert attach(small_disk, "eval", "0", "n").returncode == 0
    terminal.send("nn")
    wait_for_line(terminal, STOP + 7)
    detach(terminal)
    log = run_command([sys.executable, "-m", "dbg_broker", "log"], os.environ, seconds(20))
    assert "entries were lost" in log.stdout
    assert attach_list(small_disk)[0]["where"]["line"] == STOP + 7


DAY = 24 * 3600.0

FAKED = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
"""The library that gives a process another time of day, if it is installed."""


def test_a_clock_that_jumps_by_a_month_disturbs_no_session(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    if not FAKED.exists():
        pytest.skip("needs libfaketime")
    clock = tmp_path / "clock"
    clock.write_text("+0")

    def faked(command: Sequence[str]) -> list[str]:
        variables = [f"LD_PRELOAD={FAKED}", f"FAKETIME_TIMESTAMP_FILE={clock}", "FAKETIME_NO_CACHE=1"]
        return ["env", *variables, "DONT_FAKE_MONOTONIC=1", *command]

    running_broker(processes, home, wrap=faked)
    start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, "0")
    (before,) = attach_list(home)
    for typed, jump in enumerate(("+30d", "-30d"), start=1):
        clock.write_text(jump)
        assert attach(home, "eval", "0", "n").returncode == 0
        terminal.send("n")
        wait_for_line(terminal, STOP + typed)
    (after,) = attach_list(home)
    assert [after[name] for name in KEPT] == [before[name] for name in KEPT]
    assert not SIGN.search(terminal.output.decode(errors="replace"))
    entries = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    asked = [entry["at"] for entry in entries if entry["what"] == "question"]
    assert asked[1] - asked[0] < -50 * DAY, "the broker's clock did not jump"
    detach(terminal)


def test_a_run_on_a_full_disk_reports_it_and_a_remedy(small_disk: Path) -> None:
    command = [sys.executable, "-m", "dbg_broker", "run", "--", sys.executable, "-c", "pass"]
    fill(small_disk)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds(20))
    assert done.returncode == BadSecretFile.exit_status, done
    assert f"{small_disk}/run-broker.log" in done.stderr
    assert "DBG_HOME" in done.stderr
