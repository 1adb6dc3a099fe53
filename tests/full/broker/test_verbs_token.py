"""``dbg-broker token`` against a broker that serves: what is made is known, and what is revoked ends, at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_broker.home.rendezvous import read_rendezvous, write_rendezvous
from dbg_dial.waiting import within
from dbg_wire.version import subprotocol
from tests.support.serving import SECONDS, Serve, run, tokens
from tests.support.time_unit import seconds
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import trusting_context

REVOKED = 4003


class Terminal:
    """A terminal's connection, read and written by one thread.

    Before Python 3.13 two threads on one TLS connection disturb each other, as those of websockets' blocking client.
    """

    def __init__(self, url: str, token: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._websocket = self._loop.run_until_complete(
            connect(
                f"{url}/client",
                additional_headers={"Authorization": f"Bearer {token}"},
                subprotocols=[Subprotocol(subprotocol())],
                ssl=trusting_context(),
                compression=None,
                proxy=None,
                open_timeout=SECONDS,
            )
        )

    def closed(self) -> tuple[int | None, str | None]:
        """Return code and reason with which the broker has closed the connection."""
        self._loop.run_until_complete(within(SECONDS, self._websocket.wait_closed()))
        return self._websocket.close_code, self._websocket.close_reason

    def end(self) -> None:
        self._loop.run_until_complete(self._websocket.close())
        self._loop.close()


@contextmanager
def terminal(url: str, token: str) -> Iterator[Terminal]:
    opened = Terminal(url, token)
    try:
        yield opened
    finally:
        opened.end()


def test_a_token_with_a_name_opens_until_it_is_revoked(home: Path, serve: Serve) -> None:
    serving = serve()
    made = run(home, "token", "--role", "watcher", "--job", "train-1", "--for", "2h", "--name", "alice")
    token = made.stdout.strip()
    assert "alice: a watcher of job train-1, until " in made.stderr
    assert token not in made.stderr
    assert token not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())
    with terminal(serving.url, token) as alice:
        assert run(home, "token", "--revoke", "alice").stdout == (
            "alice is revoked, and the broker that serves has been told\n"
        )
        assert alice.closed()[0] == REVOKED
    check = run(home, "check", changes={"DBG_TOKEN": token})
    assert check.returncode == 5
    assert "does not know the token" in check.stderr + check.stdout


def test_a_token_ends_when_its_time_is_over(home: Path, serve: Serve) -> None:
    serving = serve()
    token = run(home, "token", "--role", "driver", "--for", f"{seconds(1.5):g}").stdout.strip()
    with terminal(serving.url, token) as driver:
        assert driver.closed() == (REVOKED, "its token has expired")
    check = run(home, "check", changes={"DBG_TOKEN": token})
    assert "has expired" in check.stderr + check.stdout
    assert json.loads(run(home, "token", "--list", "--json").stdout)["tokens"][0]["expired"]


def test_the_list_shows_names_and_no_tokens(home: Path) -> None:
    assert run(home, "token", "--list").stdout == "no token has a name; `dbg-broker token --name NAME` makes one\n"
    token = run(home, "token", "--role", "driver", "--name", "bob").stdout.strip()
    assert run(home, "token", "--list").stdout == "bob  a driver, without an end\n"
    document = json.loads(run(home, "token", "--list", "--json").stdout)
    assert token not in json.dumps(document)
    assert document["schema"] == 1
    assert [(one["name"], one["role"], one["job"], one["expired"]) for one in document["tokens"]] == [
        ("bob", "driver", None, False)
    ]


def test_rotation_closes_terminals_and_gives_new_tokens_to_all(home: Path, serve: Serve) -> None:
    serving = serve()
    before = tokens(home)
    with terminal(serving.url, before[1]) as driver:
        assert (
            "the home has new tokens, and the broker that serves has been told" in run(home, "token", "--rotate").stdout
        )
        assert driver.closed()[0] == REVOKED
    after = tokens(home)
    assert not set(before) & set(after)
    assert list(written_tokens(home).values()) == after
    assert run(home, "check").returncode == 0
    assert run(home, "check", changes={"DBG_TOKEN": before[1]}).returncode == 5


def test_rotation_is_refused_while_another_broker_has_the_tokens(home: Path, serve: Serve, tmp_path: Path) -> None:
    """The home's own broker has ended; tests/full/cluster has one that serves."""
    own = serve()
    ours = read_rendezvous(home)
    own.end()
    other = serve("--listen", "127.0.0.1:0", at=tmp_path / "other")
    theirs = read_rendezvous(tmp_path / "other")
    assert ours is not None
    assert theirs is not None
    write_rendezvous(home, replace(ours, brokers=(theirs.endpoint,)))
    before = tokens(home)
    refused = run(home, "token", "--rotate")
    assert refused.returncode == 2
    assert f"the broker at {other.url} has the tokens of this home too" in refused.stderr
    assert "copy its directory tokens/ into the other homes" in refused.stderr
    assert tokens(home) == before
    # The file may name others that have ended.
    other.end()
    assert run(home, "token", "--rotate").returncode == 0
    assert not set(before) & set(tokens(home))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--name", "a b"), "--name 'a b' is no name"),
        (("--name", "x", "--job", "a/b"), "--job 'a/b' is no job"),
        (("--for", "soon"), "--for 'soon' is no span of time"),
        (("--for", "99999d"), "--for '99999d' is longer than can be; give 3650d at most"),
        (("--name", ""), "--name '' is no name"),
        (("--revoke", "x", "--for", "2h"), "--for says what token to make, and --revoke makes none"),
        (("--rotate", "--job", "x"), "--job says what token to make, and --rotate makes none"),
        (("--list", "--role", "rank"), "--role says what token to make, and --list makes none"),
        (("--json",), "--json is for --list"),
        (("--revoke", "nobody"), "no token has the name 'nobody'"),
        (("--list", "--rotate"), "not allowed with"),
    ],
)
def test_what_can_not_be_done_is_said(home: Path, words: tuple[str, ...], says: str) -> None:
    refused = run(home, "token", *words)
    assert refused.returncode == 2
    assert says in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_broker_without_tls_gets_no_lasting_tokens(home: Path, serve: Serve) -> None:
    serve("--listen", "127.0.0.1:0", "--insecure")
    for words in (("--name", "x"), ("--rotate",)):
        refused = run(home, "token", *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "serves --insecure" in refused.stderr


def test_a_strangers_request_has_nothing_read_anew(home: Path, serve: Serve) -> None:
    serving = serve()
    for token, status in (("nobody" * 5, b"401"), (tokens(home)[0], b"403"), (tokens(home)[2], b"403")):
        assert reload(serving.port, token).startswith(b"HTTP/1.1 " + status)


def reload(port: int, token: str) -> bytes:
    import socket

    with trusting_context().wrap_socket(socket.create_connection(("127.0.0.1", port), SECONDS)) as secured:
        secured.sendall(f"GET /reload HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        answer = b""
        while data := secured.recv(4096):
            answer += data
        return answer
