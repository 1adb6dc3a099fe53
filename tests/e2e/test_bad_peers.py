"""The broker names what is wrong in the messages of a rank or a terminal, and no terminal suffers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from dbg_wire.codec import encode
from dbg_wire.messages import RankReport
from dbg_wire.records.ranks import Place
from dbg_wire.version import PROTOCOL_MINOR
from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, attach_list
from tests.support.sentence import HOSTILE, RAW, SECRET, check_sentence
from tests.support.time_unit import seconds
from tests.unit.broker.peers import STOP, STOPPED, registration


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("bad-peers")
    home = folder / "dbg"
    home.mkdir(0o700)
    started = Processes(folder / "logs")
    try:
        yield running_broker(started, home, "--insecure")
    finally:
        started.end_all()


def secrets_of(broker: RunningBroker) -> tuple[str, ...]:
    return tuple(broker.tokens.values())


GREET = {"type": "greet", "minor": 0, "release": "0.1.0", "name": "me@login1"}
REGISTER = json.loads(encode(registration()))


@contextlib.contextmanager
def peer(broker: RunningBroker, path: str) -> Iterator[ClientConnection]:
    """Connect as a rank (``/agent``) or terminal (``/client``) that speaks for the test.

    The connection has no TLS: the library's threads read and write one TLS object at once, which before Python 3.13
    loses an answer now and then.
    """
    token = broker.tokens["rank" if path == "/agent" else "driver"]
    with connect(
        broker.url + path,
        subprotocols=[Subprotocol("dbg.v1")],
        additional_headers={"Authorization": f"Bearer {token}"},
        compression=None,
        open_timeout=seconds(10),
    ) as connection:
        yield connection


def answer_to(connection: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next message of this type."""
    while True:
        message: dict[str, Any] = json.loads(connection.recv(timeout=seconds(10)))
        if message["type"] == kind:
            return message


def assert_closed_as_broken(connection: ClientConnection) -> None:
    """Fail unless the broker closes the connection for a breach of the protocol."""
    with pytest.raises(ConnectionClosed) as closed:
        connection.recv(timeout=seconds(10))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1002


def test_a_message_of_unknown_type_is_refused_and_the_rest_goes_on(broker: RunningBroker) -> None:
    with peer(broker, "/client") as connection:
        connection.send(json.dumps({"type": f"dance{HOSTILE}", "token": SECRET}))
        refusal = answer_to(connection, "refusal")
        assert refusal["code"] == "unknown-type"
        check_sentence(refusal["text"] + "\n", "dance", (SECRET, *secrets_of(broker)))
        connection.send(json.dumps(GREET))
        assert answer_to(connection, "welcome")["minor"] == PROTOCOL_MINOR


BREACHES: dict[str, tuple[str, str | bytes | dict[str, object], str]] = {
    "deeply nested": ("/client", "[" * 100_000, "JSON"),
    "a terminal's message": ("/agent", GREET, "greet"),
    "job with controls": ("/agent", {**REGISTER, "identity": {**REGISTER["identity"], "job": HOSTILE}}, "pwned"),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_of_the_protocol_is_named_and_the_connection_ends(name: str, broker: RunningBroker) -> None:
    path, said, named = BREACHES[name]
    with peer(broker, path) as connection:
        connection.send(json.dumps(said) if isinstance(said, dict) else said)
        refusal = answer_to(connection, "refusal")
        assert refusal["code"] == "bad-message"
        check_sentence(refusal["text"] + "\n", named, (SECRET, *secrets_of(broker)))
        assert_closed_as_broken(connection)
    assert attach_list(broker.home) == []


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
def hostile(processes: Processes, home: Path) -> Iterator[ClientConnection]:
    broker = running_broker(processes, home, "--insecure")
    with peer(broker, "/agent") as connection:
        connection.send(encode(HOSTILE_RANK))
        answer_to(connection, "welcome")
        yield connection


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_names_with_control_characters_are_listed_escaped(
    options: list[str], hostile: ClientConnection, home: Path
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


def test_names_with_control_characters_do_nothing_to_picker_and_session(
    hostile: ClientConnection, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(attach_command(), cols=160)
    terminal.wait_for(lambda terminal: any(row.startswith("> gpu013:0") for row in terminal.screen))
    terminal.wait_for(r"\x1b]0;pwned")
    terminal.send("\r")
    terminal.wait_for(re.compile(r"^ gpu013:0  stopped .*\\x1b\]0;pwned.*\Z", re.MULTILINE))
    terminal.send("\x1dd")
    assert terminal.exit_status() == 0
    assert not RAW.search(terminal.output), terminal.output
