"""Bad input of a user or a peer is answered with one sentence that shows no secret and does no harm."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from dbg_wire import PROTOCOL_MINOR
from dbg_wire.codec import encode
from dbg_wire.messages import RankReport
from dbg_wire.records.ranks import Place
from tests.conftest import OpenTerminal
from tests.smoke.test_bad_input import check
from tests.support.blocking_websocket import BlockingWebSocket
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.reach import PIN
from tests.support.sentence import HOSTILE, RAW, SECRET, check_sentence
from tests.unit.broker.peers import STOP, STOPPED, registration

STOPS = """\
from dbg_agent import set_trace
set_trace()
"""


def test_each_error_with_a_broker_and_two_jobs_has_its_exit_status(
    broker: RunningBroker, processes: Processes, home: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        start_ranks(processes, home, STOPS, 1)
    job = wait_until_stopped(home, 2)[0]["job"]
    port = str(broker.port)
    serve = [sys.executable, "-m", "dbg_broker", "serve", "--listen"]
    cases: Sequence[tuple[Sequence[str], int, str, Mapping[str, str]]] = [
        (attach_command("screen", "7"), 3, "7", {}),
        (attach_command("screen", "0"), 2, job, {}),
        (attach_command("kill", f"{job}/0"), 2, "-y", {}),
        (attach_command("list"), 5, port, {"DBG_TOKEN": SECRET}),
        (attach_command("list"), 5, port, {"DBG_TOKEN": broker.tokens["rank"]}),
        (attach_command("continue", f"{job}/0"), 5, "", {"DBG_TOKEN": broker.tokens["watcher"]}),
        (attach_command("list", f"--broker=127.0.0.1:{port}#{PIN}"), 5, port, {}),
        ([*serve, f"127.0.0.1:{port}", "--home", str(tmp_path / "home")], 1, port, {}),
        ([*serve, "127.0.0.1:0"], 10, port, {}),
    ]
    for command, status, text, env in cases:
        check(command, status, (SECRET, *broker.tokens.values()), text, **env)
    assert [rank["state"] for rank in attach_list(home)] == ["stopped"] * 2


def test_a_token_in_an_address_is_not_printed(home: Path) -> None:
    for address in (f"login1:6900?token={SECRET}", f"me:{SECRET}@login1:6900"):
        check(attach_command("list", f"--broker={address}"), 2, text="DBG_TOKEN_FILE")


def test_attaching_with_stdout_in_a_pipe_is_refused(home: Path, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(["sh", "-c", '"$0" 0 | cat', *attach_command()], cols=200, env=dict(os.environ))
    assert terminal.exit_status() == 0
    check_sentence(terminal.row(0) + "\n", "stdout")


@pytest.fixture(scope="module")
def a_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("bad-peers")
    home = folder / "dbg"
    home.mkdir(0o700)
    started = Processes(folder / "logs")
    try:
        yield running_broker(started, home)
    finally:
        started.end_all()


def secrets_of(a_broker: RunningBroker) -> tuple[str, ...]:
    return tuple(a_broker.tokens.values())


GREET = {"type": "greet", "minor": 0, "release": "0.1.0", "name": "me@login1"}
REGISTER = json.loads(encode(registration()))


@contextlib.contextmanager
def peer(a_broker: RunningBroker, path: str) -> Iterator[BlockingWebSocket]:
    """Connect as a rank (``/agent``) or terminal (``/client``) that speaks for the test."""
    token = a_broker.tokens["rank" if path == "/agent" else "driver"]
    with BlockingWebSocket(a_broker.url, path, token) as connection:
        yield connection


def answer_to(connection: BlockingWebSocket, kind: str) -> dict[str, Any]:
    """Return the next message of this type."""
    while True:
        message: dict[str, Any] = json.loads(connection.recv())
        if message["type"] == kind:
            return message


def assert_closed_as_broken(connection: BlockingWebSocket) -> None:
    """Fail unless the broker closes the connection for a breach of the protocol."""
    with pytest.raises(ConnectionClosed) as closed:
        connection.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1002


def test_a_message_of_unknown_type_is_refused_and_the_connection_continues(a_broker: RunningBroker) -> None:
    with peer(a_broker, "/client") as connection:
        connection.send(json.dumps({"type": f"dance{HOSTILE}", "token": SECRET}))
        refusal = answer_to(connection, "refusal")
        assert refusal["code"] == "unknown-type"
        check_sentence(refusal["text"] + "\n", "dance", (SECRET, *secrets_of(a_broker)))
        connection.send(json.dumps(GREET))
        assert answer_to(connection, "welcome")["minor"] == PROTOCOL_MINOR


BREACHES: dict[str, tuple[str, str | bytes | dict[str, object], str]] = {
    "deeply nested": ("/client", "[" * 100_000, "JSON"),
    "a terminal's message": ("/agent", GREET, "greet"),
    "job with controls": ("/agent", {**REGISTER, "identity": {**REGISTER["identity"], "job": HOSTILE}}, "identity.job"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_protocol_violation_is_named_and_ends_the_connection(name: str, a_broker: RunningBroker) -> None:
    path, message, named = BREACHES[name]
    with peer(a_broker, path) as connection:
        connection.send(json.dumps(message) if isinstance(message, dict) else message)
        refusal = answer_to(connection, "refusal")
        assert refusal["code"] == "bad-message"
        check_sentence(refusal["text"] + "\n", named, (SECRET, *secrets_of(a_broker)))
        assert_closed_as_broken(connection)
    assert attach_list(a_broker.home) == []


def hostile_report() -> RankReport:
    """Return a report of a stop at a place whose names act on terminals."""
    stop = STOP.replace(where=Place(file=f"/tmp/{HOSTILE}/t.py", line=7, function=f"f{HOSTILE}"))
    return STOPPED.replace(stop=stop, session=None)


HOSTILE_RANK = registration(
    script=f"/tmp/{HOSTILE}.py",
    directory=HOSTILE,
    kernel=HOSTILE,
    report=hostile_report(),
)


@pytest.fixture
def hostile(processes: Processes, home: Path) -> Iterator[BlockingWebSocket]:
    a_broker = running_broker(processes, home)
    with peer(a_broker, "/agent") as connection:
        connection.send(encode(HOSTILE_RANK))
        answer_to(connection, "welcome")
        yield connection


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_names_with_control_characters_are_listed_escaped(
    options: list[str], hostile: BlockingWebSocket, home: Path
) -> None:
    listed = attach(home, "list", *options)
    assert listed.returncode == 0
    assert not RAW.search(listed.stdout.encode()), listed.stdout
    assert all(line.replace("\t", "").isprintable() for line in listed.stdout.splitlines())
    assert listed.stdout.count("\n") == (1 if options else 3)
    assert re.search(r"\\(x|u00)1b\]0;pwned\\(x|u00)07", listed.stdout)
    if options == ["--json"]:
        (rank,) = json.loads(listed.stdout)["ranks"]
        assert rank["where"]["function"] == f"f{HOSTILE}"


def test_names_with_control_characters_are_shown_escaped_in_picker_and_session(
    hostile: BlockingWebSocket, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(attach_command(), cols=160)
    terminal.wait_for(lambda terminal: any(row.startswith("> gpu013:0") for row in terminal.screen))
    terminal.wait_for(r"\x1b]0;pwned")
    terminal.send("\r")
    terminal.wait_for(re.compile(r"^ gpu013:0  stopped .*\\x1b\]0;pwned.*\Z", re.MULTILINE))
    terminal.send("\x1dd")
    assert terminal.exit_status() == 0
    assert not RAW.search(terminal.output), terminal.output
