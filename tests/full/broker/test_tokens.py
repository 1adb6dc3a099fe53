"""Tokens and certificates of a broker that serves: a change of the home is known at once."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_broker.home.certificate import DAY_SECONDS
from dbg_broker.home.rendezvous import read_rendezvous, write_rendezvous
from dbg_dial.waiting import within
from dbg_wire.version import subprotocol
from tests.support.certificates import Authority
from tests.support.serving import SECONDS, Serve, Serving, run, tokens
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

    def closed(self) -> int | None:
        """Return the code with which the broker has closed the connection."""
        self._loop.run_until_complete(within(SECONDS, self._websocket.wait_closed()))
        return self._websocket.close_code

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
    assert all(word in made.stderr for word in ("alice", "watcher", "train-1"))
    assert token not in made.stderr
    assert token not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())
    told = json.loads(page(serving, "/bearer", token))
    assert (told["role"], told["name"], told["job"]) == ("watcher", "alice", "train-1")
    assert told["expires"] - told["made"] == pytest.approx(7200, abs=1)
    with terminal(serving.url, token) as alice:
        assert run(home, "token", "--revoke", "alice").returncode == 0
        assert alice.closed() == REVOKED
    assert run(home, "check", changes={"DBG_TOKEN": token}).returncode == 5
    assert 'dbg_broker_refusals_total{status="401"} 1' in page(serving, "/metrics")


def test_a_token_ends_when_its_time_is_over(home: Path, serve: Serve) -> None:
    serving = serve()
    token = run(home, "token", "--role", "driver", "--for", f"{seconds(1.5):g}").stdout.strip()
    with terminal(serving.url, token) as driver:
        assert driver.closed() == REVOKED
    assert json.loads(run(home, "token", "--list", "--json").stdout)["tokens"][0]["expired"]


def test_rotation_closes_terminals_and_gives_new_tokens_to_all(home: Path, serve: Serve) -> None:
    serving = serve()
    before = tokens(home)
    with terminal(serving.url, before[1]) as driver:
        assert run(home, "token", "--rotate").returncode == 0
        assert driver.closed() == REVOKED
    after = tokens(home)
    assert not set(before) & set(after)
    assert list(written_tokens(home).values()) == after
    assert run(home, "check").returncode == 0


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
    assert (refused.returncode, tokens(home)) == (2, before)
    assert other.url in refused.stderr
    # The file may name others that have ended.
    other.end()
    assert run(home, "token", "--rotate").returncode == 0
    assert not set(before) & set(tokens(home))


def test_a_strangers_request_has_nothing_read_anew(home: Path, serve: Serve) -> None:
    serving = serve()
    for token, status in (("nobody" * 5, b"401"), (tokens(home)[0], b"403"), (tokens(home)[2], b"403")):
        assert reload(serving.port, token).startswith(b"HTTP/1.1 " + status)


def reload(port: int, token: str) -> bytes:
    with trusting_context().wrap_socket(socket.create_connection(("127.0.0.1", port), SECONDS)) as secured:
        secured.sendall(f"GET /reload HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        answer = b""
        while data := secured.recv(4096):
            answer += data
        return answer


# -------------------------------------------------------------------------------------------------------- certificates


def document(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "broker.json").read_text())
    return found


def shown_by(home: Path) -> str:
    """Return the fingerprint of the certificate that a new connection is shown."""
    done = run(home, "check")
    assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"^fingerprint  ok .* (sha256:\S+)$", done.stdout, re.MULTILINE)
    return str(line)


def page(serving: Serving, path: str, token: str | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = f"{serving.url.replace('wss', 'https')}{path}"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, context=trusting_context(), timeout=seconds(30)) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def test_two_steps_exchange_the_certificate_and_both_fingerprints_are_known_in_between(
    home: Path, serve: Serve
) -> None:
    serve()
    first = document(home)["fingerprint"]
    prepared = run(home, "certificate", "--rotate")
    told = document(home)
    second = told["fingerprints"][1]
    # An older reader takes the first, which is shown until the switch.
    assert told["fingerprint"] == first == told["fingerprints"][0] == shown_by(home)
    url = told["url"].removeprefix("wss://")
    assert f"export DBG_BROKER='{url}#{first},{second}'\n" in prepared.stdout

    assert run(home, "certificate", "--switch").returncode == 0
    assert document(home)["fingerprint"] == second == shown_by(home)
    assert "fingerprints" not in document(home)
    assert run(home, "check", f"{url}#{first}").returncode == 5
    assert run(home, "check", f"{url}#{first},{second}").returncode == 0


def test_a_certificate_of_an_authority_is_served_and_its_end_is_told_everywhere(
    home: Path, serve: Serve, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    options = authority.issue("own", "127.0.0.1", days=12.5)
    serving = serve("--listen", "127.0.0.1:0", *options)
    assert not (home / "certificate.pem").exists()
    run(home, "token", "--role", "driver", "--name", "alice", "--for", "100d")
    by_both = run(home, "check", changes={"DBG_CA": str(authority.path)})
    assert by_both.returncode == 0, by_both.stderr
    assert re.search(r"^certificate  .*\(in 12 days\)$", by_both.stdout, re.MULTILINE)
    assert re.search(r"^authority    .*trustme.*3000-", by_both.stdout, re.MULTILINE)
    assert re.search(r"^issued token alice.*\(in 99 days\)$", by_both.stdout, re.MULTILINE)
    assert by_both.stdout.count("warning") == 1

    other = Authority(tmp_path, "other")
    assert run(home, "check", changes={"DBG_CA": str(other.path)}).returncode == 5

    left = float(re.findall(r"^dbg_broker_certificate_expires_seconds (\S+)$", page(serving, "/metrics"), re.M)[0])
    assert abs(left - 12.5 * DAY_SECONDS) < 3600
    # The files are renewed where they are; the home's own certificate has nothing to do with it.
    assert run(home, "certificate", "--rotate").returncode == 2
    before = document(home)["fingerprint"]
    authority.issue("own", "127.0.0.1", days=400)
    assert run(home, "certificate", "--switch").returncode == 0
    assert shown_by(home) == document(home)["fingerprint"] != before
    authority.issue("own", "127.0.0.1", days=-1, from_days=-2)
    assert run(home, "certificate", "--switch").returncode == 1
    assert run(home, "check").returncode == 0
    _, _, errors = serving.end()
    assert errors.count("WARNING") == 1


# ------------------------------------------------------------------------------------------------------ without TLS


def test_without_tls_tokens_are_the_brokers_own_and_end_with_it(home: Path, serve: Serve) -> None:
    serve().end()
    lasting = tokens(home)
    serving = serve("--listen", "127.0.0.1:0", "--insecure")
    first = written_tokens(home)
    assert serving.url.startswith("ws://")
    assert document(home)["fingerprint"] is None
    assert not set(lasting) & set(first.values())
    assert run(home, "token", "--role", "driver").stdout.strip() == first["driver"]
    assert run(home, "check").returncode == 0
    # A lasting token is not sent in the clear, and none is made there.
    assert run(home, "check", serving.url, changes={"DBG_TOKEN": lasting[1]}).returncode == 2
    for words in (["--name", "x"], ["--rotate"]):
        refused = run(home, "token", *words)
        assert (refused.returncode, refused.stdout) == (2, "")
    serving.end()
    assert not (home / "insecure-tokens").exists()
    assert run(home, "token").stdout.strip() == lasting[0]
