"""A broker that may open few files takes the ranks that it can serve, tells the rest, and stays reachable."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from dbg_wire import errors
from dbg_wire.codec import encode
from dbg_wire.messages import (
    Greet,
)
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes, run_command
from tests.support.ranks import attach as dbg_attach
from tests.support.ranks import attach_list
from tests.support.time_unit import seconds
from tests.unit.broker.peers import registration, trusting_context

TAKEN_AGAIN = "newcomers are taken"
"""The end of a lack, as the broker logs it."""

SCREEN = b"\x1b[?1049h\x1b)0\x1b[?25l\x1b[H\x1b[1;1HPuDB here\x1b[K"
"""What a stock debugger draws first."""


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


def greet(connection: ClientConnection) -> None:
    """Greet as a terminal, and wait for the welcome."""
    connection.send(encode(Greet(minor=0, release="0.1.0", name="me@login1")))
    assert json.loads(connection.recv(timeout=seconds(20)))["type"] == "welcome"


@pytest.fixture
def held() -> Iterator[contextlib.ExitStack]:
    """Hold connections until the end of the test."""
    with contextlib.ExitStack() as stack:
        yield stack


def test_more_ranks_than_it_can_serve_hear_what_it_lacks_and_it_stays_in_reach(
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


def test_without_a_descriptor_newcomers_hear_so_and_who_is_there_stays(
    processes: Processes, home: Path, held: contextlib.ExitStack
) -> None:
    wrap = partial(with_files, 64)
    broker = running_broker(processes, home, "--classic", "127.0.0.1:0", wrap=wrap)
    port = int(broker.process.wait_for_output(r"--classic: .*?(\d+)", stream="stderr")[1])
    stands = held.enter_context(dial(broker))
    register(stands, 0)
    # Stock debuggers have no share of the descriptors, so that they can use up all; terminals take the last ones.
    callers = held.enter_context(contextlib.ExitStack())
    for _ in range(44):
        callers.enter_context(socket.create_connection(("127.0.0.1", port), seconds(20))).sendall(SCREEN)
    for command in (["dbg_broker", "status"], ["dbg_client", "list"]):
        said = None
        # The broker opens a file now and then, whose descriptor is free again after somebody was refused for it.
        while said is None or said.returncode == 0:
            with contextlib.suppress(InvalidStatus):
                while True:
                    greet(callers.enter_context(dial(broker, "client", "driver")))
            said = subprocess.run(
                [sys.executable, "-m", *command], capture_output=True, text=True, timeout=seconds(20), check=False
            )
        assert said.returncode == errors.Refused.exit_status, said
        assert all(fact in said.stderr for fact in ("64 open files", "`ulimit -n`"))
    callers.close()
    broker.process.wait_for_output(TAKEN_AGAIN, stream="stderr")
    # That may have been said of a moment before, and is said once in a minute at most.
    while dbg_attach(home, "list").returncode == errors.Refused.exit_status:
        continue
    assert "gpu013:0" in [rank["address"] for rank in attach_list(home) if rank["state"] == "stopped"]
    told = broker.process.text("stderr")
    assert told.count("newcomers are refused") == told.count(TAKEN_AGAIN)
    stands.ping().wait(seconds(20))
