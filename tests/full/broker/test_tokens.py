"""Tokens and certificates of a broker that serves, and impostors in its place."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_broker.home.certificate import DAY_SECONDS
from dbg_broker.verbs.credentials import DRIVERS_PROMPT
from dbg_client.cli.main import ASK_PROMPT
from dbg_dial.memory import ask_memory, socket_name
from dbg_dial.waiting import within
from dbg_wire.version import subprotocol
from tests.support.certificates import Authority
from tests.support.processes import run_command
from tests.support.ranks import attach_command
from tests.support.serving import SECONDS, Serve, Serving, environment, run, tokens
from tests.support.terminal import Terminal as Window
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


MEMORY = ("--listen", "127.0.0.1:0", "--driver-token", "memory")


@pytest.fixture
def this_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Give the variables of a process on the broker's host; the path of a socket has to be short."""
    runtime = tempfile.mkdtemp(prefix="dbg-run-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    yield {"XDG_RUNTIME_DIR": runtime}
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture
def other_host() -> Iterator[dict[str, str]]:
    """Give the variables of a process on a host that shares the home, and no other directory."""
    runtime = tempfile.mkdtemp(prefix="dbg-run-")
    yield {"XDG_RUNTIME_DIR": runtime}
    shutil.rmtree(runtime, ignore_errors=True)


def attached(home: Path, *arguments: str, changes: dict[str, str]) -> tuple[int, str]:
    done = run_command(attach_command(*arguments), environment(home, changes), seconds(60))
    return done.returncode, done.stdout + done.stderr


def texts_of(home: Path) -> str:
    """Return all that a process which shares the home can read there."""
    return "".join(path.read_text(errors="replace") for path in home.rglob("*") if path.is_file())


def test_only_terminals_of_the_brokers_host_find_a_token_and_nothing_in_the_home_drives(
    home: Path, serve: Serve, this_host: dict[str, str], other_host: dict[str, str]
) -> None:
    home.mkdir(mode=0o700)
    (home / "tokens").mkdir(mode=0o700)
    old = "a-token-of-an-earlier-broker"
    for role in ("driver", "watcher"):
        (home / "tokens" / role).write_text(f"{old}-{role}")
        (home / "tokens" / role).chmod(0o600)
    serving = serve(*MEMORY)
    assert attached(home, "list", changes=this_host)[0] == 0
    assert run(home, "status", changes=this_host).returncode == 0
    assert run(home, "check", changes=this_host).returncode == 0

    assert sorted(path.name for path in (home / "tokens").iterdir()) == ["rank"]
    for text in set(re.findall(r"[A-Za-z0-9_.-]{16,}", texts_of(home))) | {f"{old}-driver", f"{old}-watcher"}:
        status, said = attached(home, "list", changes={**other_host, "DBG_TOKEN": text})
        assert status == 5, (text, said)

    status, said = attached(home, "list", changes=other_host)
    assert (status, said.count("\n")) == (2, 1)
    assert socket.gethostname() in said
    printed = run(home, "token", "--role", "driver", "--for", "1h", changes=this_host)
    assert attached(home, "list", changes={**other_host, "DBG_TOKEN": printed.stdout.strip()})[0] == 0
    assert run(home, "token", "--role", "driver", changes=other_host).returncode == 2
    assert run(home, "token", "--role", "watcher", "--name", "alice", changes=this_host).returncode == 2

    entries = [json.loads(line) for line in run(home, "log", "--json", changes=this_host).stdout.splitlines()]
    assert [entry["what"] for entry in entries].count("token-handed") >= 3
    serving.end()
    assert not list(Path(this_host["XDG_RUNTIME_DIR"]).rglob("*.sock"))


def test_a_socket_of_another_user_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tempfile.mkdtemp(prefix="dbg-run-")
    try:
        directory = Path(runtime) / "dbg-broker"
        directory.mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(directory / socket_name(str(tmp_path))))
            listener.listen()
            listener.setblocking(False)
            monkeypatch.setattr("dbg_dial.memory.peer_of", lambda connected: (1, os.getuid() + 1))
            assert ask_memory(str(tmp_path), {"XDG_RUNTIME_DIR": runtime}) is None
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.recv(100) == b""
    finally:
        shutil.rmtree(runtime)


def broker_that_asks(home: Path, typed: str) -> Window:
    command = [sys.executable, "-m", "dbg_broker", "serve", "--listen", "127.0.0.1:0", "--driver-token", "ask"]
    terminal = Window(command, 40, 160, environment(home))
    terminal.wait_for(DRIVERS_PROMPT.strip())
    terminal.send(f"{typed}\r")
    terminal.wait_for("ready at")
    return terminal


def list_by_typing(home: Path, token: str, *, variable: bool = False) -> tuple[int, str]:
    command = attach_command("list", *([] if variable else ["--ask-token"]))
    with Window(command, 24, 160, environment(home, {"DBG_ASK_TOKEN": "1"} if variable else {})) as terminal:
        terminal.wait_for(ASK_PROMPT.strip())
        terminal.send(f"{token}\r")
        status = terminal.exit_status()
        return status, "\n".join(terminal.screen)


def test_a_token_that_is_typed_at_both_ends_is_nowhere_else(home: Path) -> None:
    token = "correct-horse-battery-staple"  # noqa: S105 - nobody's
    with broker_that_asks(home, token):
        status, shown = list_by_typing(home, token)
        assert status == 0
        assert token not in shown
        assert list_by_typing(home, token, variable=True)[0] == 0
        assert list_by_typing(home, "another-token-of-some-length")[0] == 5
        assert token not in texts_of(home)
        assert attached(home, "list", changes={})[0] == 2
        assert attach_without_terminal(home) == 2


def attach_without_terminal(home: Path) -> int:
    # A new session has no controlling terminal.
    program = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", program, *attach_command("list", "--ask-token")]
    return run_command(command, environment(home), seconds(60)).returncode


INSECURE = ("--listen", "127.0.0.1:0", "--insecure")


class Healthy(http.server.BaseHTTPRequestHandler):
    """A web server whose answer is that of a broker's health page."""

    def do_GET(self) -> None:
        """Answer ``ok`` to any path."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the test's stderr free of access logs."""


@contextmanager
def impostor(port: int) -> Iterator[None]:
    """Run a server on a dead broker's port that answers as a healthy broker."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("before", [INSECURE, ("--listen", "127.0.0.1:0")])
def test_an_impostor_does_not_keep_serve_from_starting(home: Path, serve: Serve, before: tuple[str, ...]) -> None:
    first = serve(*before)
    first.end(signal.SIGKILL)
    with impostor(first.port):
        serve("--listen", "127.0.0.1:0")
