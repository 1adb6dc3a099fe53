"""``dbg-broker check``: each step, and the one that fails."""

from __future__ import annotations

import http.server
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbg_broker.home.certificate import load_own
from tests.support.serving import Serve, run, tokens

STEPS = ["name", "port", "TLS", "fingerprint", "token", "version", "round trip"]
NOT_PLAIN = {"fingerprint"}


def steps(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """Return the steps with what became of them, without the lines of what ends when."""
    lines = [(line[:12].strip(), line[13:].split()[0]) for line in done.stdout.splitlines()[1:]]
    return [(name, became) for name, became in lines if became in ("ok", "FAILED")]


def test_check_goes_through_all_steps(home: Path, serve: Serve) -> None:
    serve()
    done = run(home, "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert steps(done) == [(step, "ok") for step in STEPS]
    assert all(re.search(r"ok +\d+\.\d ms", line) for line in done.stdout.splitlines()[1 : 1 + len(STEPS)])


def failed_at(done: subprocess.CompletedProcess[str], step: str) -> None:
    """Check that all steps before ``step`` were fine, and that its failure is explained in one line."""
    taken = [before for before in STEPS[: STEPS.index(step)] if not ("ws://" in done.args[-1] and before in NOT_PLAIN)]
    assert steps(done) == [(before, "ok") for before in taken] + [(step, "FAILED")]
    assert done.stderr.startswith("dbg-broker: ")
    assert done.stderr.count("\n") == 1


def test_check_explains_a_name_that_is_none(home: Path, serve: Serve) -> None:
    serve()
    done = run(home, "check", "no-such-host.invalid:6900")
    failed_at(done, "name")
    assert done.returncode == 4


def test_check_explains_a_port_where_nobody_listens(home: Path, serve: Serve) -> None:
    serve().end(signal.SIGKILL)
    done = run(home, "check")
    failed_at(done, "port")
    assert done.returncode == 4


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


def test_check_explains_a_web_server(home: Path, serve: Serve, web_server: tuple[int, list[str]]) -> None:
    serve()
    done = run(home, "check", f"127.0.0.1:{web_server[0]}")
    failed_at(done, "TLS")
    assert done.returncode == 5
    assert "does not speak TLS" in done.stderr
    assert web_server[1] == []


def test_check_explains_a_web_server_without_tls(home: Path, web_server: tuple[int, list[str]]) -> None:
    done = run(home, "check", f"ws://127.0.0.1:{web_server[0]}", changes={"DBG_TOKEN": f"insecure-{'x' * 43}"})
    failed_at(done, "token")
    assert done.returncode == 5
    assert "no dbg-broker" in done.stderr


def test_token_of_a_secure_broker_does_not_go_into_the_clear(
    home: Path, serve: Serve, web_server: tuple[int, list[str]]
) -> None:
    serve()
    done = run(home, "check", f"ws://127.0.0.1:{web_server[0]}")
    assert done.returncode == 2
    assert web_server[1] == []


def test_check_refuses_another_certificate_before_it_sends_anything(home: Path, tmp_path: Path, serve: Serve) -> None:
    serving = serve()
    (tmp_path / "impostor").mkdir(mode=0o700)
    fingerprint = load_own(tmp_path / "impostor").fingerprint
    done = run(home, "check", f"127.0.0.1:{serving.port}#{fingerprint}")
    failed_at(done, "fingerprint")
    assert done.returncode == 5
    assert "nothing was sent" in done.stderr


def test_check_explains_a_wrong_token_without_repeating_it(home: Path, serve: Serve) -> None:
    serve()
    done = run(home, "check", changes={"DBG_TOKEN": "wrong" * 9})
    failed_at(done, "token")
    assert done.returncode == 5
    assert "wrongwrong" not in done.stdout + done.stderr


def test_check_says_that_a_ranks_token_is_no_terminals(home: Path, serve: Serve) -> None:
    serve()
    done = run(home, "check", changes={"DBG_TOKEN": tokens(home)[0]})
    failed_at(done, "token")
    assert "rank" in done.stderr


def test_check_goes_the_way_of_a_rank_where_only_its_token_is(home: Path, serve: Serve, tmp_path: Path) -> None:
    serving = serve()
    rank, driver = tokens(home)[:2]
    address = f"127.0.0.1:{serving.port}#{load_own(home).fingerprint}"
    elsewhere = tmp_path / "elsewhere"
    done = run(elsewhere, "check", "--rank", address, changes={"DBG_TOKEN": rank})
    assert done.returncode == 0, done.stderr
    assert "\nround trip   ok" in done.stdout
    done = run(elsewhere, "check", "--rank", address, changes={"DBG_TOKEN": driver})
    failed_at(done, "token")
    assert "is a driver's, and /agent is not for drivers" in done.stderr


def test_token_file_that_others_can_read_is_refused(home: Path, tmp_path: Path, serve: Serve) -> None:
    serve()
    (tmp_path / "token").write_text("x" * 43)
    (tmp_path / "token").chmod(0o644)
    done = run(home, "check", changes={"DBG_TOKEN_FILE": str(tmp_path / "token")})
    assert done.returncode == 2
    assert "chmod 600" in done.stderr


@contextmanager
def old_broker() -> Iterator[int]:
    """Answer one request as a broker of another major version does."""
    body = b"this broker speaks protocol version 7, and you offer protocol version 1\n"
    answer = b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_one() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(4096)
                accepted.sendall(answer)

        thread = threading.Thread(target=serve_one)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_check_explains_another_version(home: Path) -> None:
    with old_broker() as port:
        done = run(home, "check", f"ws://127.0.0.1:{port}", changes={"DBG_TOKEN": f"insecure-{'x' * 43}"})
    assert [step for step, _ in steps(done)] == ["name", "port", "TLS", "token", "version"]
    assert done.returncode == 5
    assert "version 7" in done.stderr
