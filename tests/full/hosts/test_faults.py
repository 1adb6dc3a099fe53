"""Each fault in the middle of PuDB, of pdb under output and of a question: no key is lost or applied twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.full.hosts.stage import Stage
from tests.full.hosts.table_of_faults import HOSTS, NETWORK, PROCESSES, Fault
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.proxy import Direction, Proxy
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT
from tests.support.time_unit import seconds


@pytest.mark.xdist_group("faults on one host")
@pytest.mark.parametrize("fault", [*NETWORK, *PROCESSES], ids=lambda fault: fault.name)
def test_keys_are_neither_lost_nor_doubled(fault: Fault, stage: Stage) -> None:
    undergo(fault, stage)


@pytest.mark.xdist_group("faults between two hosts")
@pytest.mark.parametrize("fault", HOSTS, ids=lambda fault: fault.name)
def test_keys_between_two_hosts_are_neither_lost_nor_doubled(fault: Fault, stage_of_two_hosts: Stage) -> None:
    undergo(fault, stage_of_two_hosts)


def undergo(fault: Fault, stage: Stage) -> None:
    """Let a fault pass, print what was measured, and hold it to the fault's bounds."""
    measured = stage.undergo(fault)
    for figures in measured:
        print(figures)  # noqa: T201 - for the table in docs/reliability.md
    for figures in measured:
        assert (figures.lost, figures.doubled, figures.lines_lost) == (0, 0, 0), figures
        assert figures.back <= seconds(fault.back), figures
        assert figures.noticed is None or figures.noticed <= seconds(fault.noticed or 0), figures


PLACES: tuple[Direction, ...] = ("down", "up", "up", "down")
"""The ways of a key to the rank, of its acknowledgement, of a key from the terminal, and of what it draws."""

COUNTS = (1, 40, 90, 160, 300)
"""Bytes after which a connection is cut: in a key's frame, between that and the next one, in what follows."""


def test_a_key_is_applied_once_when_its_connection_ends_at_any_byte(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, home)
    with Proxy(("127.0.0.1", broker.port)) as of_rank, Proxy(("127.0.0.1", broker.port)) as of_terminal:
        start_ranks(processes, home, STRAIGHT, 1, env={"DBG_BROKER": f"127.0.0.1:{of_rank.port}"})
        wait_until_stopped(home, 1)
        terminal = sit_in_pudb(open_terminal, "0", "--broker", f"127.0.0.1:{of_terminal.port}")
        typed = cuts = 0
        for count in COUNTS:
            for proxy, direction in zip((of_rank, of_rank, of_terminal, of_terminal), PLACES, strict=True):
                proxy.cut_after(count, direction)
                terminal.send("nn")
                typed += 2
                wait_for_line(terminal, STOP + typed)
                cuts += proxy.cut_so_far
                proxy.mend()
        assert cuts >= len(COUNTS) * len(PLACES) // 2
        assert line_after_all_keys(terminal, home) == STOP + typed
