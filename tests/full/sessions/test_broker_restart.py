"""The broker and the network may go at any moment: ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dbg_client.attachment.notices import discarded
from tests.conftest import OpenTerminal
from tests.e2e.test_broker_restart import KINDS, assert_nothing_told
from tests.full.sessions.test_impostor import ONE_STOP
from tests.smoke.test_broker import let_finish, said, start_one
from tests.smoke.test_endings import attach_with_own_settings, ended
from tests.support.broker import RunningBroker, running_broker
from tests.support.fake_brokers import Impostor, Kind
from tests.support.processes import Child, Processes, run_command
from tests.support.proxy import Proxy
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, line_shown, rows_of_rank, sit_in_pudb, wait_for_line
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds


def test_keys_that_wait_in_the_rank_for_a_long_step_are_not_applied_again(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    gate = home / "gate"
    os.mkfifo(gate)
    waiting = STRAIGHT.replace("    n += 1\n", f"    open({str(gate)!r}).close()\n", 1)
    start_one(processes, home, waiting)
    terminal = sit_in_pudb(open_terminal, ":0")
    terminal.send("n" * 20)
    terminal.wait_for(lambda terminal: " running" in terminal.row(-1))
    broker.kill()
    terminal.wait_for("broker gone")
    terminal.send("n" * 5)
    broker.restart()
    terminal.wait_for(lambda terminal: " running" in terminal.row(-1))
    gate.write_bytes(b"")
    wait_for_line(terminal, STOP + 25)
    assert line_after_all_keys(terminal, home) == STOP + 25
    assert "discarded" not in said(terminal)


def test_keys_that_never_arrived_are_sent_again(
    broker: RunningBroker, proxy: Proxy, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home, proxy=proxy)
    terminal = sit_in_pudb(open_terminal, ":0")
    proxy.swallow("down")
    terminal.send("n" * 25)
    # The proxy has swallowed two probes as well by the time the rank counts as silent.
    terminal.wait_for("silent for")
    broker.kill()
    # The end of the connection was swallowed too: without the cut, the rank would wait for minutes.
    proxy.cut()
    proxy.mend()
    broker.restart()
    wait_for_line(terminal, STOP + 25)
    assert line_after_all_keys(terminal, home) == STOP + 25
    assert "discarded" not in said(terminal)
    let_finish(terminal, rank)


def test_keys_for_a_stop_that_ended_meanwhile_are_reported_when_the_session_ends(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home, ONE_STOP + "signal.pause()\n")
    terminal = sit_in_pudb(open_terminal, ":0")
    broker.kill()
    terminal.wait_for("broker gone")
    terminal.send("n" * 12)
    rank.signal(signal.SIGUSR1)
    rank.wait_for_output("^woken$")
    broker.restart()
    assert terminal.exit_status() == 7
    assert discarded("n" * 12, "").removesuffix(" ()") in "\n".join(terminal.screen)


def test_keys_of_a_terminal_whose_seat_was_taken_meanwhile_are_reported(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    terminal = sit_in_pudb(open_terminal, ":0")
    broker.kill()
    terminal.wait_for("broker gone")
    terminal.send("n" * 9)
    terminal.wait_for(lambda terminal: " kept" in terminal.row(-1))
    terminal.signal(signal.SIGSTOP)
    broker.restart()
    wait_until_stopped(home, 1)
    other = sit_in_pudb(open_terminal, ":0", "--take")
    other.send("nn")
    wait_for_line(other, STOP + 2)
    terminal.signal(signal.SIGCONT)
    terminal.wait_for("discarded: 'nnnnnnnnn'")
    assert line_after_all_keys(other, home) == STOP + 2
    let_finish(other, rank)


def test_a_broker_killed_while_output_floods_leaves_no_broken_screen(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    rows, cols = 60, 160
    terminal = sit_in_pudb(open_terminal, ":0", rows=rows, cols=cols)
    for _ in range(2):
        # Each key redraws the whole source window; the terminal does not read meanwhile, so output fills every queue.
        terminal.send(b"Gg" * 40 + b"H")
        broker.kill()
        terminal.wait_for("broker gone")
        broker.restart()
        terminal.wait_for(line_shown)
    terminal.send("H")
    assert line_after_all_keys(terminal, home, seconds(60)) == STOP
    terminal.wait_for(lambda terminal: terminal.screen[: rows - 1] == padded(rows_of_rank(home, ":0"), rows - 1))
    assert DRAWN in "\n".join(terminal.screen)
    let_finish(terminal, rank)


def padded(rows: list[str], count: int) -> list[str]:
    """Return ``rows`` with the empty rows that a print leaves out at the end."""
    return rows + [""] * (count - len(rows))


pytestmark = pytest.mark.timeout(seconds(120))


def test_a_rank_that_is_cut_off_and_stays_away_is_given_up(
    processes: Processes, home: Path, open_terminal: OpenTerminal, proxy: Proxy
) -> None:
    rank = start_one(processes, home, proxy=proxy)
    terminal = attach_with_own_settings(open_terminal, home)
    proxy.cut()
    terminal.wait_for(lambda terminal: re.search(r" lost for \d+ s ", terminal.row(-1)))
    status, _ = ended(terminal, home)
    assert status == 8
    late = open_terminal(attach_command("0"))
    assert late.exit_status() == 1
    assert rank.exit_status is None


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give this host a directory for sockets; their paths have to be short."""
    path = tempfile.mkdtemp(prefix="dbg-run-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", path)
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


SPY = """\
import json, os, re, sys
from pathlib import Path
from dbg_agent import set_trace
from dbg_dial.memory import ask_memory
home = Path(os.environ["DBG_HOME"])
seen = [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file() and path.suffix != ".py"]
found = sorted({text for one in seen for text in re.findall(r"[A-Za-z0-9_.-]{16,}", one)})
print(json.dumps({"found": found, "told": ask_memory(str(home), os.environ)}), flush=True)
set_trace()
"""


def test_a_rank_of_another_host_drives_nothing_and_a_session_outlives_the_broker_with_its_token(
    processes: Processes, home: Path, runtime: Path, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, home, "--driver-token", "memory")
    with tempfile.TemporaryDirectory(prefix="dbg-run-") as elsewhere:
        script = SPY + "total = 0\ntotal += 1\n"
        (rank,) = start_ranks(processes, home, script, 1, env={"XDG_RUNTIME_DIR": elsewhere})
        rank.wait_for_output(r"^\{.*\n")
        terminal = sit_in_pudb(open_terminal, "wait", ":0", "--for", f"{seconds(60):g}")
        report: dict[str, Any] = json.loads(rank.text().splitlines()[0])
        assert report["told"] is None
        assert broker.rendezvous["tokens"]["rank"] in report["found"]
        own = {**os.environ, "DBG_HOME": str(home)}
        for text in report["found"]:
            assert run_command([*attach_command(), "list"], {**own, "DBG_TOKEN": text}, seconds(60)).returncode == 5, (
                text
            )
        broker.kill()
        terminal.wait_for("broker gone")
        broker.restart()
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0


@KINDS
def test_everything_goes_on_with_the_real_broker_on_another_port_while_the_impostor_stays(
    kind: Kind, *, broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    terminal = sit_in_pudb(open_terminal, ":0")
    broker.kill()
    with Impostor(broker.port, kind) as impostor:
        terminal.wait_for("broker gone")
        terminal.send("nn")
        impostor.wait_for_more(4)
        # The second broker has the same home, and first asks whether the broker in broker.json is still there.
        second = running_broker(processes, home)
        wait_for_line(terminal, STOP + 2)
        terminal.send("c")
        assert terminal.exit_status() == 7
        assert rank.wait() == 0
    assert_nothing_told(impostor, kind, second)


CROWD = 48
"""Light ranks beside the two real ones."""

RESTARTS = 2

NOISY = """\
import threading
from dbg_agent import set_trace

def noisy():
    number = 0
    while True:
        number += 1
        print("line", number, flush=True)
        threading.Event().wait(0.002)

set_trace(engine="pdb")
"""
"""A rank whose pdb prints without an end when it is told to."""

PRINTED = re.compile(r"line (\d+)")


def last_printed(terminal: Terminal) -> int:
    """Return the number of the last line that the terminal shows."""
    return max((int(number) for number in PRINTED.findall("\n".join(terminal.screen))), default=0)


def shows_more_than(number: int) -> Callable[[Terminal], bool]:
    """Return whether a terminal shows a later line than this one."""
    return lambda terminal: last_printed(terminal) > number


@pytest.fixture
def crowded(processes: Processes, home: Path) -> tuple[RunningBroker, Child]:
    """Return a broker with a crowd of ranks."""
    # A process of its own from the start: other brokers of the tests are forked, with all that they import.
    broker = running_broker(processes, home, wrap=lambda command: ["env", *command])
    command = [sys.executable, "-m", "tests.support.crowd", "returning", broker.url, broker.tokens["rank"], str(CROWD)]
    crowd = processes.start("crowd", command)
    crowd.wait_for_output("all are registered")
    return broker, crowd


def test_terminals_are_handed_over(
    crowded: tuple[RunningBroker, Child],
    processes: Processes,
    home: Path,
    open_terminal: OpenTerminal,
) -> None:
    broker, crowd = crowded
    start_ranks(processes, home, STRAIGHT, 1, name="straight")
    start_ranks(processes, home, NOISY, 1, name="noisy")
    stopped = {Path(rank["where"]["file"]).name: rank for rank in wait_until_stopped(home, 2) if rank["where"]}
    targets = {name: f"{rank['job']}/{rank['address']}" for name, rank in stopped.items()}
    pudb = sit_in_pudb(open_terminal, targets["straight_script.py"])
    pdb = open_terminal(attach_command(targets["noisy_script.py"]), 24, 100)
    pdb.wait_for("(Pdb)")
    pdb.send("noisy()\n")
    pdb.wait_for(PRINTED)
    line = STOP
    for _ in range(RESTARTS):
        broker.process.terminate()
        pudb.send("n")
        broker.process.wait()
        broker.restart()
        line += 1
        wait_for_line(pudb, line)
        seen = last_printed(pdb)
        pdb.wait_for(shows_more_than(seen))
    crowd.wait_for_output("(all are registered\n){2,}")


def wait_for_at_least(terminal: Terminal, line: int) -> None:
    """Wait until the rank is stopped at this line or a later one."""
    terminal.wait_for(lambda terminal: line_shown(terminal) >= line)


def test_keys_before_during_and_after_outages_are_applied_once_each(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    terminal = sit_in_pudb(open_terminal, ":0")
    typed = 0
    for _ in range(3):
        # The keys are typed at once: when the broker dies, some are applied and some are under way.
        terminal.send("n" * 40)
        wait_for_at_least(terminal, STOP + typed + 3)
        broker.kill()
        terminal.send("n" * 17)
        terminal.wait_for("broker gone")
        terminal.send("n" * 13)
        broker.restart()
        terminal.send("n" * 10)
        typed += 80
    wait_for_line(terminal, STOP + typed)
    assert line_after_all_keys(terminal, home) == STOP + typed
    assert "discarded" not in said(terminal)
    let_finish(terminal, rank)
