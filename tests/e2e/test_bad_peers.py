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
from dbg_wire.messages import Answer, Kind, RankReport
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


def register(part: str, **fields: object) -> dict[str, object]:
    """Return a registration with other values in its ``identity`` or ``process``."""
    return {**REGISTER, part: {**REGISTER[part], **fields}}


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


FIRST = {"/agent": register("identity", key="4711.0/unknown"), "/client": GREET}


@pytest.mark.parametrize("path", FIRST)
def test_a_message_of_unknown_type_is_named_and_the_rest_goes_on(path: str, broker: RunningBroker) -> None:
    unknown = json.dumps({"type": f"dance{HOSTILE}", "token": SECRET})
    with peer(broker, path) as connection:
        connection.send(unknown)
        refusal = answer_to(connection, "refusal")
        assert refusal["code"] == "unknown-type"
        named = r"unknown message type 'dance\\x1b\]0;pwned"
        check_sentence(refusal["text"] + "\n", named, (SECRET, *secrets_of(broker)))
        connection.send(json.dumps(FIRST[path]))
        assert answer_to(connection, "welcome")["minor"] == PROTOCOL_MINOR
        connection.send(unknown)
        assert answer_to(connection, "refusal")["code"] == "unknown-type"
        if path == "/client":
            connection.send(json.dumps({"type": "subscribe"}))
            assert answer_to(connection, "snapshot")["last"]
        else:
            assert [rank["address"] for rank in attach_list(broker.home)] == ["gpu013:0"]
            connection.send(json.dumps({"type": "goodbye", "exit": 0}))


def registering(part: str, **changes: object) -> dict[str, object]:
    """Return a registration with changes in one of its parts."""
    return {**REGISTER, part: {**REGISTER[part], **changes}}


BREACHES: dict[str, tuple[str, str | bytes | dict[str, object], str]] = {
    "no JSON": ("/client", "hello", "a text frame that is not JSON"),
    "a list": ("/client", "[]", "a text frame that is not an object with a type"),
    "deeply nested": ("/client", "[" * 100_000, "a text frame that is not JSON"),
    "no greeting": ("/client", {"type": "subscribe"}, "greet"),
    "a rank's message": ("/client", REGISTER, "message 'register' does not come from clients"),
    "the broker's message": ("/client", {"type": "gone", "key": "x"}, "message 'gone' does not come from clients"),
    "no name": ("/client", {**GREET, "name": None}, "greet.name is None, not `str`"),
    "name with controls": ("/client", {**GREET, "name": HOSTILE}, "greet.name has characters that are not printable"),
    "bytes of a rank": ("/client", b"\x01" + bytes(12), "terminal bytes before `greet`"),
    "a terminal's message": ("/agent", GREET, "message 'greet' does not come from agents"),
    "no registration": ("/agent", {"type": "goodbye", "exit": 0}, "`register`"),
    "missing field": ("/agent", {"type": "register"}, "register lacks the field 'minor'"),
    "wrong type": ("/agent", register("process", pid="1"), "register.process.pid is '1', not `int`"),
    "negative rank": ("/agent", register("identity", rank=-1), "register.identity.rank is -1, below 0"),
    "unknown state": (
        "/agent",
        {**REGISTER, "report": {"state": "dancing"}},
        "report.state is 'dancing', which is not allowed",
    ),
    "bytes of a terminal": ("/agent", b"\x02" + bytes(20), "terminal bytes before `register`"),
    **{
        f"{name} with controls": (
            "/agent",
            register(part, **{name: HOSTILE}),
            rf"register\.{part}\.{name} is '\\x1b\]0;pwned",
        )
        for part, names in (("identity", ("key", "job", "run", "host")), ("process", ("release", "python")))
        for name in names
    },
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


@pytest.mark.parametrize("options", [[], ["--plain"], ["--json"], ["--all"]])
def test_names_with_control_characters_are_listed_escaped(
    options: list[str], hostile: ClientConnection, home: Path
) -> None:
    listed = attach(home, "list", *options)
    assert listed.returncode == 0
    assert not RAW.search(listed.stdout.encode()), listed.stdout
    assert all(line.replace("\t", "").isprintable() for line in listed.stdout.splitlines())
    assert listed.stdout.count("\n") == (1 if options in (["--plain"], ["--json"]) else 3)
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


@pytest.mark.parametrize("action", ["screen", "continue"])
@pytest.mark.parametrize("kind", [Kind.VALUE, Kind.ERROR])
def test_answers_with_control_characters_are_printed_escaped(
    action: str, kind: Kind, hostile: ClientConnection, processes: Processes
) -> None:
    asking = processes.start("asking", attach_command(action, "0"))
    request = answer_to(hostile, "ask")["request"]
    hostile.send(encode(Answer(request=request, kind=kind, text=HOSTILE, rows=(f"row{HOSTILE}",))))
    assert asking.wait() in (0, 1)
    said = (asking.text() + asking.text("stderr")).encode()
    assert b"pwned" in said
    assert not RAW.search(said), said
