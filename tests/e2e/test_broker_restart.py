"""The broker and the network may go at any moment: ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.proxy import Proxy
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, line_shown, rows_of_rank, sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_list, start_ranks, wait_until_states, wait_until_stopped
from tests.support.straight import LINES, STOP, STRAIGHT, TOLD_EVERY
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

ONE_STOP = """\
import signal
from dbg_agent import set_trace
class Woken(Exception):
    pass
def wake(number, frame):
    raise Woken
signal.signal(signal.SIGUSR1, wake)
try:
    set_trace()
except Woken:
    print("woken", flush=True)
"""

SEVERAL_STOPS = (
    ONE_STOP + "def second():\n    n = 0\n    set_trace()\n" + "    n += 1\n" * LINES + "    return n\nsecond()\n"
)
FIRST_STOP, SECOND_STOP = 9, 14


@pytest.fixture
def proxy(broker: RunningBroker) -> Iterator[Proxy]:
    """A bad network in front of the broker, and of a broker that is started later on the same port."""
    with Proxy(("127.0.0.1", broker.port)) as proxy:
        yield proxy


def start_one(processes: Processes, home: Path, script: str = STRAIGHT, proxy: Proxy | None = None) -> Child:
    """Start one rank, which reaches the broker through ``proxy`` if one is given, and return it when it is stopped."""
    env = {} if proxy is None else {"DBG_BROKER": f"127.0.0.1:{proxy.port}"}
    (rank,) = start_ranks(processes, home, script, 1, env=env)
    wait_until_stopped(home, 1)
    return rank


def let_finish(terminal: Terminal, rank: Child) -> None:
    """Type ``c``; fail unless rank and terminal end, and the rank as if no terminal had been there."""
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"
    assert rank.text("stderr").count("\n") == 1, "more than the line about the stop"


def wait_for_at_least(terminal: Terminal, line: int) -> None:
    """Wait until the rank is stopped at this line or a later one."""
    terminal.wait_for(lambda terminal: line_shown(terminal) >= line)


def unchanging(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a restart must not change of ranks, in a fixed order."""
    kept = ("address", "job", "run", "pid", "state", "reason", "where", "engine", "world_size", "child")
    return sorted(({name: rank[name] for name in kept} for rank in ranks), key=str)


def said(terminal: Terminal) -> str:
    """Return everything the terminal has ever shown, as text."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", terminal.output.decode(errors="replace"))


@pytest.mark.parametrize("same_port", [True, False], ids=["same port", "other port"])
def test_ranks_and_terminal_come_back_to_the_same_frame(
    same_port: bool, broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, STRAIGHT, 4)
    wait_until_stopped(home, 4)
    terminal = sit_in_pudb(open_terminal, ":2")
    terminal.send("nnn")
    wait_for_line(terminal, STOP + 3)
    terminal.wait_for("n: 2")
    before = unchanging(attach_list(home))

    old_port = broker.port
    broker.kill()
    terminal.wait_for("broker gone")
    if same_port:
        broker.restart()
    else:
        # The old port is bound without a listener, so that the new broker can't get it by chance.
        with socket.socket() as holder:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", old_port))
            assert running_broker(processes, home).port != old_port

    assert unchanging(wait_until_stopped(home, 4)) == before
    terminal.send("nn")
    wait_for_line(terminal, STOP + 5)
    terminal.wait_for("n: 4")
    let_finish(terminal, ranks[2])
    assert attach(home, "continue", "all", "-y").returncode == 0
    assert [rank.wait() for rank in ranks] == [0] * 4


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


def test_keys_whose_acknowledgement_was_lost_are_not_applied_again(
    broker: RunningBroker, proxy: Proxy, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home, proxy=proxy)
    terminal = sit_in_pudb(open_terminal, ":0")
    proxy.swallow("up")
    # One step for each counting line, one for each telling line, and one to get going.
    typed = 3 * (TOLD_EVERY + 1) + 1
    terminal.send("n" * typed)
    rank.wait_for_output(rf"^at {3 * TOLD_EVERY}$")
    assert "n: 1" not in "\n".join(terminal.screen), "nothing that the rank says should have come through"
    broker.kill()
    proxy.mend()
    broker.restart()
    wait_for_line(terminal, STOP + typed)
    terminal.send("nn")
    wait_for_line(terminal, STOP + typed + 2)
    assert line_after_all_keys(terminal, home) == STOP + typed + 2
    assert "discarded" not in said(terminal)
    let_finish(terminal, rank)


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


def test_keys_for_a_stop_that_ended_meanwhile_never_reach_the_next_one(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home, SEVERAL_STOPS)
    terminal = sit_in_pudb(open_terminal, ":0")
    wait_for_line(terminal, FIRST_STOP)
    broker.kill()
    terminal.wait_for("broker gone")
    terminal.send("n" * 12)
    # The terminal is suspended, so that it comes back only when the rank is in its next stop.
    terminal.signal(signal.SIGSTOP)
    rank.signal(signal.SIGUSR1)
    rank.wait_for_output("^woken$")
    broker.restart()
    wait_until_stopped(home, 1)
    terminal.signal(signal.SIGCONT)
    terminal.wait_for("discarded: 'nnnnnnnnnnnn' (the stop ended)")
    assert line_after_all_keys(terminal, home) == SECOND_STOP
    terminal.send("nn")
    terminal.wait_for("n: 1")
    assert attach_list(home)[0]["where"]["line"] == SECOND_STOP + 2


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
    assert "discarded: 'nnnnnnnnnnnn' (the stop ended)" in "\n".join(terminal.screen)


def test_keys_of_a_terminal_whose_seat_was_taken_meanwhile_are_reported(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    terminal = sit_in_pudb(open_terminal, ":0")
    broker.kill()
    terminal.wait_for("broker gone")
    terminal.send("n" * 9)
    terminal.wait_for("keys are kept")
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


def test_a_screen_that_was_lost_on_its_way_is_drawn_again_without_a_key(
    proxy: Proxy, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home, proxy=proxy)
    terminal = sit_in_pudb(open_terminal, ":0")
    proxy.swallow("up")
    terminal.send("n" * (TOLD_EVERY + 2))
    rank.wait_for_output(f"^at {TOLD_EVERY}$")
    proxy.cut()
    proxy.mend()
    wait_for_line(terminal, STOP + TOLD_EVERY + 2)
    terminal.wait_for(f"n: {TOLD_EVERY}")
    let_finish(terminal, rank)


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


def test_a_broker_that_goes_away_early_is_not_called_missing(processes: Processes, home: Path) -> None:
    broker = running_broker(processes, home)
    script = """\
import time
import dbg_agent
dbg_agent.install(connect_timeout=3)
time.sleep(4)
print("went on", flush=True)
"""
    (rank,) = start_ranks(processes, home, script, 1)
    wait_until_states(home, {0: "running"})
    broker.kill()
    rank.wait_for_output("went on")
    assert rank.wait() == 0
    assert "no broker" not in rank.text("stderr")
