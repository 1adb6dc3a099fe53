"""A broker that may open few files takes the ranks that it can serve, tells the rest, and stays reachable."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from dbg_wire.codec import encode
from tests.broker.peers import registration
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach_list
from tests.support.time_unit import seconds

pytestmark = pytest.mark.integration


def with_files(count: int, command: Sequence[str]) -> list[str]:
    """Return ``command`` with a limit of ``count`` open files."""
    return ["/bin/sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", *command]


def dial(broker: RunningBroker) -> ClientConnection:
    return connect(
        f"{broker.url}/agent",
        subprotocols=[Subprotocol("dbg.v1")],
        additional_headers={"Authorization": f"Bearer {broker.tokens['rank']}"},
        compression=None,
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


def test_more_ranks_than_it_can_serve_hear_what_it_lacks_and_it_stays_in_reach(
    processes: Processes, home: Path, held: contextlib.ExitStack
) -> None:
    broker = running_broker(processes, home, "--insecure", wrap=lambda command: with_files(64, command))
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
    assert f"503 the broker is full: {taken} ranks are connected, and it takes {taken}" in refused
    assert "64 open files" in refused
    status = subprocess.run(
        [sys.executable, "-m", "dbg_broker", "status"], capture_output=True, text=True, timeout=seconds(20), check=False
    )
    assert status.returncode == 0, status.stderr
    assert f"ranks: {taken} " in status.stdout
    assert len(attach_list(home)) == taken


def test_an_honest_rank_gets_in_beside_a_thousand_that_say_nothing(
    processes: Processes, home: Path, held: contextlib.ExitStack
) -> None:
    broker = running_broker(processes, home, "--insecure", wrap=lambda command: with_files(1024, command))
    for _ in range(1013):
        held.enter_context(socket.create_connection(("127.0.0.1", broker.port), seconds(20)))
    register(held.enter_context(dial(broker)), 0)
    assert [rank["address"] for rank in attach_list(home)] == ["gpu013:0"]
