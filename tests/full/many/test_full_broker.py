"""A broker that may open few files takes the ranks that it can serve, refuses the rest, and stays reachable."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from dbg_wire.codec import encode
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes, run_command
from tests.support.ranks import attach_list
from tests.support.time_unit import seconds
from tests.unit.broker.peers import registration, trusting_context


def with_files(count: int, command: Sequence[str]) -> list[str]:
    """Return ``command`` with a limit of ``count`` open files."""
    return ["/bin/sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", *command]


def dial(broker: RunningBroker, path: str = "agent", role: str = "rank") -> ClientConnection:
    return connect(
        f"{broker.url}/{path}",
        subprotocols=[Subprotocol("dbg.v1")],
        additional_headers={"Authorization": f"Bearer {broker.tokens[role]}"},
        compression=None,
        ssl=trusting_context(),
        open_timeout=seconds(20),
    )


def register(connection: ClientConnection, number: int) -> None:
    """Register as a rank, and wait for the welcome."""
    connection.send(encode(registration(number)))
    assert json.loads(connection.recv(timeout=seconds(20)))["type"] == "welcome"


@pytest.fixture
def held() -> Iterator[contextlib.ExitStack]:
    """Hold connections until the end of the test."""
    with contextlib.ExitStack() as stack:
        yield stack


def test_a_full_broker_refuses_more_ranks_and_stays_reachable(
    processes: Processes, home: Path, held: contextlib.ExitStack
) -> None:
    broker = running_broker(processes, home, wrap=lambda command: with_files(64, command))
    refused = ""
    taken = 0
    for number in range(90):
        try:
            connection = held.enter_context(dial(broker))
        except InvalidStatus as error:
            refused = f"{error.response.status_code} {(error.response.body or b'').decode()}"
        else:
            register(connection, number)
            taken += 1
    assert 10 < taken < 40
    assert refused.startswith("503 ")
    assert all(fact in refused for fact in (f"{taken} ranks", "64 open files"))
    status = run_command([sys.executable, "-m", "dbg_broker", "status"], os.environ, seconds(20))
    assert status.returncode == 0, status.stderr
    assert f"ranks: {taken} " in status.stdout
    assert len(attach_list(home)) == taken
