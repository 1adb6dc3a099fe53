"""A broker starts in spite of impostors and leftovers, and serves without TLS only where that is asked for."""

from __future__ import annotations

import http.server
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.serving import Serve

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
