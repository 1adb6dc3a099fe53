"""A connection that ends at any byte of a key, of its acknowledgement or of what it draws: the key is applied once."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.proxy import Direction, Proxy
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import start_ranks, wait_until_stopped
from tests.support.straight import STOP, STRAIGHT

PLACES: tuple[Direction, ...] = ("down", "up", "up", "down")
"""The ways of a key to the rank, of its acknowledgement, of a key from the terminal, and of what it draws."""

COUNTS = (1, 40, 90, 160, 300)
"""Bytes after which a connection is cut: in a key's frame, between that and the next one, in what follows."""


def test_a_key_whose_connection_ends_at_any_byte_is_applied_once(
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
