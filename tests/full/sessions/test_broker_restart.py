"""The broker and the network may go at any moment: ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_broker_restart import KINDS, assert_nothing_told
from tests.smoke.test_broker import let_finish, start_one
from tests.support.broker import RunningBroker, running_broker
from tests.support.fake_brokers import Impostor, Kind
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, line_shown, rows_of_rank, sit_in_pudb, wait_for_line
from tests.support.ranks import start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds


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
