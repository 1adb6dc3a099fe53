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

import dbg_client
from dbg_wire import errors
from dbg_wire.codec import encode
from dbg_wire.messages import Greet
from tests.broker.peers import registration
from tests.support.broker import RunningBroker, running_broker
from tests.support.ide import Refused, ide
from tests.support.processes import Processes
from tests.support.ranks import attach_list
from tests.support.time_unit import seconds

pytestmark = pytest.mark.integration


def with_files(count: int, command: Sequence[str]) -> list[str]:
    """Return ``command`` with a limit of ``count`` open files."""
    return ["/bin/sh", "-c", f'ulimit -n {count}; exec "$@"', "sh", *command]


def dial(broker: RunningBroker, path: str = "agent", role: str = "rank") -> ClientConnection:
    return connect(
        f"{broker.url}/{path}",
        subprotocols=[Subprotocol("dbg.v1")],
        additional_headers={"Authorization": f"Bearer {broker.tokens[role]}"},
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


def test_an_ide_and_a_program_hear_that_the_broker_is_full(
    processes: Processes, home: Path, held: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBG_HOME", str(home))
    broker = running_broker(processes, home, "--insecure", wrap=lambda command: with_files(64, command))
    with contextlib.suppress(InvalidStatus):
        while True:
            terminal = held.enter_context(dial(broker, "client", "driver"))
            terminal.send(encode(Greet(minor=0, release="0.1.0", name="me@login1")))
            assert json.loads(terminal.recv(timeout=seconds(20)))["type"] == "welcome"
    with ide(home) as window, pytest.raises(Refused, match="the broker is full"):
        window.attach()
    with pytest.raises(errors.Refused, match="the broker is full"):
        dbg_client.connect()


def test_an_honest_rank_gets_in_beside_a_thousand_that_say_nothing(
    processes: Processes, home: Path, held: contextlib.ExitStack
) -> None:
    broker = running_broker(processes, home, "--insecure", wrap=lambda command: with_files(1024, command))
    for _ in range(1013):
        held.enter_context(socket.create_connection(("127.0.0.1", broker.port), seconds(20)))
    register(held.enter_context(dial(broker)), 0)
    assert [rank["address"] for rank in attach_list(home)] == ["gpu013:0"]
