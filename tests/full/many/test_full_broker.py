"""A broker that may open few files takes the ranks that it can serve, tells the rest, and stays reachable."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import InvalidStatus
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

import dbg_client
from dbg_wire import errors
from dbg_wire.codec import decode, encode
from dbg_wire.limits import KIB, MIB
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    Greet,
    Kind,
    Message,
    Question,
    RankAnswer,
    Seat,
    Sender,
    Welcome,
)
from tests.support.broker import RunningBroker, running_broker
from tests.support.ide import Refused, ide
from tests.support.processes import Processes, run_command
from tests.support.ranks import attach as dbg_attach
from tests.support.ranks import attach_list
from tests.support.time_unit import seconds
from tests.unit.broker.peers import Peer, attach, cut, registration, trusting_context

RANKS = 12
"""Ranks whose screens, which come at the same time, are more than there is memory for."""

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
        ssl=trusting_context() if broker.url.startswith("wss:") else None,
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


async def open_websocket(broker: RunningBroker, path: str, role: str) -> AsyncConnection:
    return await connect_async(
        f"{broker.url}/{path}",
        subprotocols=[Subprotocol("dbg.v1")],
        additional_headers={"Authorization": f"Bearer {broker.tokens[role]}"},
        compression=None,
        ssl=trusting_context(),
        open_timeout=seconds(60),
        max_size=None,
    )


async def seen(broker: RunningBroker, path: str, role: str, first: Message, sender: Sender) -> Peer:
    """Connect a peer and say its first message."""
    peer = Peer(await open_websocket(broker, path, role), sender)
    await peer.say(first)
    await peer.expect(Welcome)
    return peer


async def newcomer(broker: RunningBroker) -> str:
    """Return how the broker refuses a terminal; empty if it takes it."""
    try:
        websocket = await open_websocket(broker, "client", "driver")
    except InvalidStatus as error:
        return f"{error.response.status_code} {(error.response.body or b'').decode()}"
    await cut(websocket)
    return ""


async def answer_with_screens(rank: Peer) -> None:
    """Answer each question with 400 KB."""
    while True:
        message = decode(await rank.websocket.recv(), Sender.BROKER)
        if isinstance(message, Ask):
            await rank.say(Answer(request=message.request, kind=Kind.VALUE, text="", rows=("x" * 1000,) * 400))


async def screens_of_all(terminal: Peer, request: int) -> list[RankAnswer]:
    """Ask all ranks, and return their answers."""
    keys = tuple(registration(number).identity.key for number in range(RANKS))
    await terminal.say(Question(request=request, keys=keys, action=Action.WHERE, seconds=seconds(20)))
    answers: list[RankAnswer] = []
    while True:
        page = await terminal.expect(Answers)
        answers.extend(page.answers)
        if page.last:
            return answers


def size_of(broker: RunningBroker) -> int:
    """Return how many bytes of address space a broker has."""
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(status.partition("VmSize:")[2].split()[0]) * KIB


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
    assert refused.startswith("503 ")
    assert all(fact in refused for fact in (f"{taken} ranks", "64 open files"))
    status = run_command([sys.executable, "-m", "dbg_broker", "status"], os.environ, seconds(20))
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
            greet(held.enter_context(dial(broker, "client", "driver")))
    with ide(home) as window, pytest.raises(Refused):
        window.attach()
    with pytest.raises(errors.Refused):
        dbg_client.connect()


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


async def test_without_memory_newcomers_and_long_answers_are_refused_and_who_is_there_stays(
    processes: Processes, home: Path
) -> None:
    broker = running_broker(processes, home)
    ranks = [await seen(broker, "agent", "rank", registration(number), Sender.AGENT) for number in range(RANKS)]
    greeting = Greet(minor=0, release="0.1.0", name="me@login1")
    terminal = await seen(broker, "client", "driver", greeting, Sender.CLIENT)
    await terminal.say(attach(registration(0).identity.key))
    await terminal.expect(Seat)
    resource.prlimit(broker.process.pid, resource.RLIMIT_AS, (size_of(broker) + 6 * MIB, resource.RLIM_INFINITY))
    screens = [asyncio.create_task(answer_with_screens(rank)) for rank in ranks]
    with contextlib.ExitStack() as strangers:
        for _ in range(200):
            strangers.enter_context(socket.create_connection(("127.0.0.1", broker.port), seconds(20)))
        for request in range(10):
            answers = await screens_of_all(terminal, request)
        newcomers = await asyncio.gather(*(newcomer(broker) for _ in range(50)))
    assert {said for said in newcomers if "503 " not in said or "memory" not in said} == set()
    assert "memory" in answers[0].text
    assert len(await screens_of_all(terminal, 10)) == RANKS
    for task in screens:
        task.cancel()
    assert {rank.websocket.state for rank in ranks} == {State.OPEN}
    resource.prlimit(broker.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    broker.process.wait_for_output(TAKEN_AGAIN, stream="stderr")
    assert len(attach_list(home)) == RANKS
    assert "Traceback" not in broker.process.text("stderr")
    assert broker.process.text("stderr").count("newcomers are refused") == 1
    await asyncio.gather(*(cut(peer.websocket) for peer in (terminal, *ranks)))


def test_an_honest_rank_gets_in_beside_a_thousand_that_say_nothing(
    processes: Processes, home: Path, held: contextlib.ExitStack
) -> None:
    broker = running_broker(processes, home, "--insecure", wrap=lambda command: with_files(1024, command))
    for _ in range(1013):
        held.enter_context(socket.create_connection(("127.0.0.1", broker.port), seconds(20)))
    register(held.enter_context(dial(broker)), 0)
    assert [rank["address"] for rank in attach_list(home)] == ["gpu013:0"]
