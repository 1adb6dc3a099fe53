"""A broker without TLS: its tokens end with it, and an impostor on its port does not keep the next broker out."""

from __future__ import annotations

import http.server
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbg_broker.verbs.broker_client import answers
from dbg_wire.finding.endpoint import THROW_AWAY_MARK, Endpoint
from tests.support.serving import SECONDS, Serve, run, tokens
from tests.support.tokens import written_tokens

INSECURE = ("--listen", "127.0.0.1:0", "--insecure")


def throw_away(home: Path) -> dict[str, str]:
    return written_tokens(home)


def test_its_tokens_are_its_own_and_end_with_it(home: Path, serve: Serve) -> None:
    serve().end()
    lasting = tokens(home)
    serving = serve(*INSECURE)
    first = throw_away(home)
    files = sorted((home / "insecure-tokens").iterdir())
    assert {file.name: file.read_text().strip() for file in files} == first
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert not set(lasting) & set(first.values())
    assert all(token.startswith(THROW_AWAY_MARK) for token in first.values())
    assert run(home, "token", "--role", "driver").stdout.strip() == first["driver"]
    _, output, _ = serving.end()
    assert f"DBG_TOKEN_FILE={home}/insecure-tokens/rank" in output
    assert not (home / "insecure-tokens").exists()
    assert run(home, "token").stdout.strip() == lasting[0] == tokens(home)[0]
    serve(*INSECURE)
    assert not set(throw_away(home).values()) & set(first.values())


def test_it_makes_no_lasting_tokens_and_takes_none(home: Path, serve: Serve, tmp_path: Path) -> None:
    serve(at=tmp_path / "other").end()
    serving = serve(*INSECURE)
    assert not (home / "tokens").exists()
    lasting = tokens(tmp_path / "other")[1]
    refused = run(home, "check", serving.url, changes={"DBG_TOKEN": lasting})
    assert refused.returncode == 2
    assert "the lasting token from DBG_TOKEN must not travel in the clear" in refused.stderr
    assert run(home, "check").returncode == 0


def test_what_a_killed_one_left_is_removed_by_the_next(home: Path, serve: Serve) -> None:
    serve(*INSECURE).end(signal.SIGKILL)
    left = throw_away(home)
    assert (home / "insecure-tokens" / "rank").exists()
    assert run(home, "token").stdout.strip() not in left.values()
    serve()
    assert not (home / "insecure-tokens").exists()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "login1:6900"])
def test_it_serves_on_loopback_only(home: Path, listen: str) -> None:
    refused = run(home, "serve", "--listen", listen, "--insecure")
    assert refused.returncode == 2
    assert f"--insecure serves on loopback only, and --listen {listen} is none" in refused.stderr
    assert "--insecure-anywhere" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_it_serves_elsewhere_where_that_is_said(serve: Serve) -> None:
    serving = serve("--listen", "0.0.0.0:0", "--insecure-anywhere")
    assert serving.url.startswith("ws://")
    with socket.create_connection(("127.0.0.1", serving.port)):
        pass


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


def test_a_second_one_is_refused_where_the_lock_does_not_tell(home: Path, serve: Serve) -> None:
    first = serve(*INSECURE)
    (home / "serve.lock").unlink()
    refused = run(home, "serve", "--listen", "127.0.0.1:0")
    assert refused.returncode == 1
    assert f"pid {first.pid}" in refused.stderr
    assert run(home, "check").returncode == 0


def test_one_who_answers_byte_by_byte_holds_nobody_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            accepted, _ = listener.accept()
            with accepted:
                try:
                    while not ended.wait(0.05):
                        accepted.sendall(b".")
                except OSError:
                    pass

        ended = threading.Event()
        thread = threading.Thread(target=drip)
        thread.start()
        endpoint = Endpoint(host="127.0.0.1", port=listener.getsockname()[1], secure=False, fingerprint=None)
        began = time.monotonic()
        assert not answers(endpoint, "insecure-" + "x" * 30, 0.5)
        assert time.monotonic() - began < SECONDS / 2
        ended.set()
        thread.join()
