"""``dbg-broker check``: each step, and the one that fails; and what the verbs ask a broker without TLS."""

from __future__ import annotations

import asyncio
import http.server
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dbg_broker.home.certificate import load_own
from dbg_broker.verbs.check import check
from dbg_wire.errors import BadSecretFile, BrokerUnreachable, DbgError, WrongToken
from tests.unit.broker.peers import Broker, running_broker

STEPS = ["name", "port", "TLS", "fingerprint", "token", "version", "round trip"]
INSECURE = {"DBG_TOKEN": f"insecure-{'x' * 43}"}


@dataclass
class Checked:
    """The lines of a check, and the error by which it has ended."""

    lines: list[str] = field(default_factory=list)
    error: DbgError | None = None

    @property
    def status(self) -> int:
        """The exit status of the command."""
        return 0 if self.error is None else self.error.exit_status

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The steps with what became of them, without the lines of what ends when."""
        found = [(line[:12].strip(), line[13:].split()[0]) for line in self.lines[1:]]
        return [(name, became) for name, became in found if became in ("ok", "FAILED")]


def checked(home: Path, url: str | None, environ: dict[str, str], *, as_rank: bool = False) -> Checked:
    done = Checked()
    try:
        assert check(url, str(home), environ, done.lines.append, as_rank=as_rank) == 0
    except DbgError as error:
        done.error = error
    return done


@pytest.fixture
async def secure(made_home: Path) -> AsyncIterator[Broker]:
    async with running_broker(made_home, tls=True) as running:
        yield running


def address(broker: Broker) -> str:
    return str(broker.endpoint).removeprefix("wss://")


async def test_check_goes_through_all_steps(secure: Broker, home: Path) -> None:
    done = await asyncio.to_thread(checked, home, address(secure), {"DBG_TOKEN": secure.tokens.driver})
    assert done.error is None
    assert done.steps == [(step, "ok") for step in STEPS]
    assert all(re.search(r"ok +\d+\.\d ms", line) for line in done.lines[1 : 1 + len(STEPS)])


async def test_check_goes_the_way_of_a_rank_where_only_its_token_is(secure: Broker, home: Path) -> None:
    environ = {"DBG_TOKEN": secure.tokens.rank}
    done = await asyncio.to_thread(lambda: checked(home, address(secure), environ, as_rank=True))
    assert (done.error, done.steps[-1]) == (None, ("round trip", "ok"))


@pytest.mark.parametrize(
    ("token", "as_rank"),
    [(lambda _: "wrong" * 9, False), (lambda tokens: tokens.rank, False), (lambda tokens: tokens.driver, True)],
    ids=["unknown", "a rank's", "a driver's"],
)
async def test_check_stops_at_a_wrong_token_without_repeating_it(
    secure: Broker, home: Path, token: Callable[..., str], as_rank: bool
) -> None:
    environ = {"DBG_TOKEN": token(secure.tokens)}
    done = await asyncio.to_thread(lambda: checked(home, address(secure), environ, as_rank=as_rank))
    assert done.steps == [*((step, "ok") for step in STEPS[:4]), ("token", "FAILED")]
    assert (type(done.error), done.status) == (WrongToken, 5)
    assert environ["DBG_TOKEN"] not in str(done.error) + str(done.lines)


async def test_check_refuses_another_certificate_before_it_sends_anything(
    secure: Broker, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "impostor").mkdir(mode=0o700)
    fingerprint = load_own(tmp_path / "impostor").fingerprint
    url = f"127.0.0.1:{secure.endpoint.port}#{fingerprint}"
    done = await asyncio.to_thread(checked, home, url, {"DBG_TOKEN": secure.tokens.driver})
    assert done.steps == [*((step, "ok") for step in STEPS[:3]), ("fingerprint", "FAILED")]
    assert done.status == 5


class Recorder(http.server.BaseHTTPRequestHandler):
    """A web server that keeps the headers of each request."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(str(self.headers))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the test's stderr free of access logs."""


@pytest.fixture
def web_server() -> Iterator[tuple[int, list[str]]]:
    """Run a web server and return its port and the headers it got."""
    asked: list[str] = []
    handler = type("Handler", (Recorder,), {"asked": asked})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


def test_a_web_server_is_no_broker_and_gets_no_token_in_the_clear(
    made_home: Path, web_server: tuple[int, list[str]]
) -> None:
    port, asked = web_server
    pin = load_own(made_home).fingerprint
    secure = checked(made_home, f"127.0.0.1:{port}#{pin}", {"DBG_TOKEN": "x" * 43})
    assert (secure.steps[-1], asked) == (("TLS", "FAILED"), [])
    lasting = checked(made_home, f"ws://127.0.0.1:{port}", {"DBG_TOKEN": "x" * 43})
    assert (lasting.status, lasting.lines, asked) == (2, [], [])
    plain = checked(made_home, f"ws://127.0.0.1:{port}", INSECURE)
    assert plain.steps == [(step, "ok") for step in STEPS[:3]] + [("token", "FAILED")]
    assert (secure.status, plain.status) == (5, 5)


def test_a_name_that_is_none_and_a_port_where_nobody_listens(made_home: Path) -> None:
    name = checked(made_home, "ws://no-such-host.invalid:6900", INSECURE)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = checked(made_home, f"ws://127.0.0.1:{unused.getsockname()[1]}", INSECURE)
    assert [one.steps[-1] for one in (name, port)] == [("name", "FAILED"), ("port", "FAILED")]
    assert [type(one.error) for one in (name, port)] == [BrokerUnreachable] * 2
    assert (name.status, port.status) == (4, 4)


def test_token_file_that_others_can_read_is_refused(made_home: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x" * 43)
    (tmp_path / "token").chmod(0o644)
    done = checked(made_home, "ws://127.0.0.1:1", {"DBG_TOKEN_FILE": str(tmp_path / "token")})
    assert (type(done.error), done.lines) == (BadSecretFile, [])


@contextmanager
def answering(serve_one: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept one connection, and answer it in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            accepted, _ = listener.accept()
            with accepted:
                serve_one(accepted)

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_check_explains_another_version(made_home: Path) -> None:
    body = b"this broker speaks protocol version 7, and you offer protocol version 1\n"
    answer = b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def refuse(accepted: socket.socket) -> None:
        accepted.recv(4096)
        accepted.sendall(answer)

    with answering(refuse) as port:
        done = checked(made_home, f"ws://127.0.0.1:{port}", INSECURE)
    assert [step for step, _ in done.steps] == ["name", "port", "TLS", "token", "version"]
    assert done.status == 5
