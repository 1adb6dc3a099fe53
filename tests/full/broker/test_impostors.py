"""A broker starts in spite of impostors and leftovers, and serves without TLS only where that is asked for."""

from __future__ import annotations

import http.server
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.serving import Serve, run
from tests.support.tokens import written_tokens

INSECURE = ("--listen", "127.0.0.1:0", "--insecure")


def test_what_a_killed_one_left_is_removed_by_the_next(home: Path, serve: Serve) -> None:
    serve(*INSECURE).end(signal.SIGKILL)
    left = written_tokens(home)
    assert (home / "insecure-tokens" / "rank").exists()
    assert run(home, "token").stdout.strip() not in left.values()
    serve()
    assert not (home / "insecure-tokens").exists()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "login1:6900"])
def test_it_serves_on_loopback_only(home: Path, listen: str) -> None:
    assert run(home, "serve", "--listen", listen, "--insecure").returncode == 2


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
    assert run(home, "serve", "--listen", "127.0.0.1:0").returncode == 1
    assert run(home, "check").returncode == 0
    assert first.end()[0] == 0
