"""Tokens and certificates of a broker that serves, and impostors in its place."""

from __future__ import annotations

import http.server
import json
import re
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.blocking_websocket import BlockingWebSocket
from tests.support.certificates import Authority
from tests.support.serving import Serve, Serving, run
from tests.support.time_unit import seconds
from tests.unit.broker.peers import trusting_context

REVOKED = 4003


def terminal(url: str, token: str) -> BlockingWebSocket:
    return BlockingWebSocket(url, "/client", token)


def test_a_named_token_works_until_it_is_revoked(home: Path, serve: Serve) -> None:
    serving = serve()
    made = run(home, "token", "--role", "watcher", "--job", "train-1", "--for", "2h", "--name", "alice")
    token = made.stdout.strip()
    assert all(word in made.stderr for word in ("alice", "watcher", "train-1"))
    assert token not in made.stderr
    assert token not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())
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


def test_a_certificate_of_an_authority_is_served_and_reloaded_after_a_renewal(
    home: Path, serve: Serve, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    serving = serve("--listen", "127.0.0.1:0", "-v", *authority.issue("own", "127.0.0.1"))
    assert not (home / "certificate.pem").exists()
    assert run(home, "check", changes={"DBG_CA": str(authority.path)}).returncode == 0
    other = Authority(tmp_path, "other")
    assert run(home, "check", changes={"DBG_CA": str(other.path)}).returncode == 5
    # The files are renewed where they are.
    before = document(home)["fingerprint"]
    authority.issue("own", "127.0.0.1", days=400)
    serving.wait_for("serving a new certificate")
    assert shown_by(home) == document(home)["fingerprint"] != before


# ---------------------------------------------------------------------------------------------------------- impostors


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


def test_serve_starts_despite_an_impostor(home: Path, serve: Serve) -> None:
    first = serve("--listen", "127.0.0.1:0")
    first.end(signal.SIGKILL)
    with impostor(first.port):
        serve("--listen", "127.0.0.1:0")
