"""``dbg-broker serve`` as a process: what it leaves in the home, how it ends, and who keeps it from starting."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from dbg_broker.home.private_files import open_home
from dbg_broker.journal import worker
from dbg_broker.journal.audit import append, encode_entry
from dbg_broker.journal.command import OnEvent
from dbg_broker.journal.events import Event, EventKind
from dbg_broker.journal.worker import WorkerThread
from dbg_broker.net.tcp import listen
from dbg_broker.serve.listening import lines_to_paste
from dbg_command.audit import AuditEntry, AuditEvent, decode_entry
from tests.support.serving import Serve, environment, run, tokens
from tests.support.time_unit import seconds
from tests.unit.broker.peers import trusting_context


def test_serve_prints_the_lines_to_paste_and_no_token(home: Path, serve: Serve) -> None:
    serving = serve()
    written = json.loads((home / "broker.json").read_text())
    assert written["schema"] == 1
    assert (written["url"], written["pid"], written["host"]) == (serving.url, serving.pid, socket.gethostname())
    assert list(written["tokens"]) == ["rank"]
    assert list(json.loads((home / "driver.json").read_text())["tokens"]) == ["driver", "watcher"]
    status, output, errors = serving.end()
    assert (status, errors) == (0, "")
    assert not (home / "broker.json").exists()
    assert not (home / "driver.json").exists()
    assert f"export DBG_HOME={home}" in output
    assert f"DBG_BROKER='127.0.0.1:{serving.port}#{written['fingerprint']}'" in output
    assert f"DBG_TOKEN_FILE={home}/tokens/rank" in output
    assert f"ssh -L {serving.port}:127.0.0.1:{serving.port} {socket.gethostname()}" in output
    assert not any(token in output for token in tokens(home))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_serve_ends_cleanly_by_signal_also_when_a_usual_port_is_taken(home: Path, serve: Serve, number: int) -> None:
    taken = {0}
    with ExitStack() as stack:
        # Another process may have it already, and may end at any time.
        with suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 6900)))
            taken.add(6900)
        serving = serve("-v")
    assert serving.port not in taken
    assert serving.end(number)[0] == 0
    assert not (home / "broker.json").exists()


def test_serve_on_all_addresses_names_the_host(serve: Serve) -> None:
    serving = serve("--listen", "0.0.0.0:0")
    assert socket.gethostname() in serving.url or re.search(r"//\d+\.\d+\.\d+\.\d+:", serving.url)


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_second_broker_in_a_home_is_refused_and_the_first_is_named(home: Path, serve: Serve, has_lock: bool) -> None:
    serving = serve()
    if not has_lock:
        # It is found by its answer then.
        (home / "serve.lock").unlink()
    done = run(home, "serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 10
    assert f"pid {serving.pid}" in done.stderr
    assert json.loads((home / "broker.json").read_text())["pid"] == serving.pid


def test_a_killed_broker_does_not_block_the_next_and_its_secrets_are_kept(home: Path, serve: Serve) -> None:
    first = serve()
    before = json.loads((home / "broker.json").read_text())
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert run(home, "status").returncode == 4
    second = serve("--listen", f"127.0.0.1:{first.port}")
    after = json.loads((home / "broker.json").read_text())
    assert (after["url"], after["pid"]) == (first.url, second.pid)
    assert (after["fingerprint"], after["tokens"]) == (before["fingerprint"], before["tokens"])


@pytest.mark.parametrize("left_over", ["{", json.dumps({"schema": 99})])
def test_a_broken_file_of_an_earlier_broker_does_not_block_the_next(home: Path, serve: Serve, left_over: str) -> None:
    home.mkdir(mode=0o700)
    (home / "broker.json").write_text(left_over)
    (home / "broker.json").chmod(0o600)
    assert run(home, "status").returncode == 2
    serve()
    assert json.loads((home / "broker.json").read_text())["schema"] == 1


def test_a_shell_joins_a_line_that_is_pasted_in_parts() -> None:
    address = "login1.cluster:6900#" + ",".join(["sha256:" + "0" * 64] * 2)
    lines = lines_to_paste("elsewhere", address, "DBG_TOKEN_FILE=/h/t", 80)
    typed = "\n".join([*lines[1:], 'printf "%s %s" "$DBG_BROKER" "$DBG_TOKEN_FILE"'])
    ran = subprocess.run(["sh", "-c", typed], capture_output=True, check=True, text=True)
    assert ran.stdout == f"{address} /h/t"


# ------------------------------------------------------------------------------------------------- a socket of systemd

AS_SYSTEMD = """\
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "dbg_broker", "serve"])
"""


def as_systemd(home: Path, listener: socket.socket) -> subprocess.Popen[str]:
    """Start a broker with this socket."""
    return subprocess.Popen(
        [sys.executable, "-c", AS_SYSTEMD, str(listener.fileno())],
        env=environment(home),
        pass_fds=[listener.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_connection_made_between_two_brokers_is_served_by_the_next(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as listener:
        for _ in range(2):
            # Nobody accepts yet, and nobody refuses.
            asking = socket.create_connection(listener.getsockname(), seconds(20))
            broker = as_systemd(tmp_path, listener)
            assert broker.stdout is not None
            assert f"wss://127.0.0.1:{listener.getsockname()[1]} " in broker.stdout.readline()
            with trusting_context().wrap_socket(asking) as tls:
                tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
                assert tls.recv(12) == b"HTTP/1.1 200"
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=seconds(20))
            assert broker.returncode == 0


def test_a_socket_of_another_kind_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        broker = as_systemd(tmp_path, other)
        broker.communicate(timeout=seconds(20))
    assert broker.returncode == 2


# ------------------------------------------------------------------------------------------------------- the audit log


def test_follow_shows_new_entries_also_of_the_next_file_and_no_token(home: Path, serve: Serve) -> None:
    open_home(str(home))
    command = [sys.executable, "-m", "dbg_broker", "log", "--follow", "--json"]
    with subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None

        def read() -> AuditEntry:
            assert following.stdout is not None
            entry = decode_entry(following.stdout.readline().encode())
            assert entry is not None
            return entry

        serving = serve()
        assert read().what is AuditEvent.START
        token = run(home, "token", "--role", "driver", "--name", "bob").stdout.strip()
        assert read().what is AuditEvent.TOKEN_MADE
        append(home, encode_entry(AuditEntry(at=1.0, what=AuditEvent.QUESTION, action="eval")), max_bytes=1)
        assert read().action == "eval"
        serving.end()
        assert read().what is AuditEvent.END
        following.terminate()
    assert token not in "".join(path.read_text() for path in home.glob("audit.jsonl*"))


HOSTILE = "$(touch broken); `id` \\ '\" \x1b[2J\nsecond line"


def event(number: int = 0) -> Event:
    return Event(kind=EventKind.STOP, at=float(number), sentence=HOSTILE, job=HOSTILE)


class LogLines(logging.Handler):
    """The lines of the broker's log, and a semaphore that counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []
        self.count = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))
        self.count.release()

    def wait(self, count: int = 1) -> list[tuple[str, str]]:
        for _ in range(count):
            assert self.count.acquire(timeout=seconds(20)), self.lines
        return self.lines


@pytest.fixture
def log() -> Iterator[LogLines]:
    lines, logger = LogLines(), logging.getLogger("dbg_broker")
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(level)


class EventCommand:
    """A command, and the thread that runs it."""

    def __init__(
        self, words: list[str], environ: Mapping[str, str] = os.environ, *, most: int = 100, limit: float = 30.0
    ) -> None:
        self.command = OnEvent(words, environ, limit=limit)
        self.worker = WorkerThread("test", self.command.put, most=most)
        self.emit = self.worker.put

    def close(self) -> None:
        """End as the journal does."""
        self.worker.close()
        self.command.end()


def script(path: Path, body: str) -> list[str]:
    """Write a shell script; return the words that run it."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


def pipe(path: Path) -> Path:
    """Make a named pipe, whose end shows a test that a script has reached a line."""
    os.mkfifo(path)
    return path


def test_a_command_gets_only_the_event(tmp_path: Path, log: LogLines) -> None:
    done = pipe(tmp_path / "done")
    body = f"cat; env; echo args=$#; ls /proc/self/fd | wc -l; ps -o sid= $$; echo >{shlex.quote(str(done))}"
    environ = {**os.environ, "DBG_TOKEN": "secret", "DBG_TOKEN_FILE": "secret", "NOTIFY_SOCKET": "secret", "MINE": "1"}
    read, write = os.pipe()
    os.set_inheritable(write, True)
    on_event = EventCommand(script(tmp_path / "notify", f"({body}) >{tmp_path}/out 2>&1"), environ)
    on_event.emit(event())
    done.read_bytes()
    on_event.close()
    os.close(read)
    os.close(write)
    first, *others = (tmp_path / "out").read_text().splitlines()
    assert json.loads(first)["sentence"] == HOSTILE.encode("unicode_escape").decode().replace("\\\\", "\\")
    assert not any("secret" in line or "broken" in line for line in others)
    assert "MINE=1" in others
    assert "args=0" in others
    # 0, 1, 2, and the directory that `ls` reads.
    assert "4" in [line.strip() for line in others]
    assert str(os.getsid(0)) != others[-1].strip()
    assert log.lines == []


@pytest.mark.parametrize(
    ("body", "level", "parts"),
    [
        ("echo all is well; exit 0", "INFO", ["all is well"]),
        ("echo no such host >&2; exit 7", "WARNING", ["status 7", "no such host"]),
        ("exit 7", "WARNING", ["status 7"]),
        ("kill -9 $$", "WARNING", ["SIGKILL"]),
        ("printf '\\033[2Jhostile'; exit 1", "WARNING", ["status 1", "\\x1b[2Jhostile"]),
    ],
)
def test_output_and_failure_of_a_command_are_logged(
    body: str, level: str, parts: list[str], tmp_path: Path, log: LogLines
) -> None:
    words = script(tmp_path / "notify", body)
    on_event = EventCommand(words)
    on_event.emit(event())
    log.wait()
    on_event.close()
    warnings = [line for line in log.lines if line[0] == "WARNING"]
    assert any(line[0] == level and all(part in line[1] for part in parts) for line in log.lines)
    assert len(warnings) == (level == "WARNING")


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path, log: LogLines) -> None:
    begun = pipe(tmp_path / "begun")
    # Its child ignores SIGTERM and holds the output open.
    body = f"trap '' TERM; (echo >{shlex.quote(str(begun))}; exec sleep 1000) & echo waits; wait"
    on_event = EventCommand(script(tmp_path / "notify", body), limit=seconds(1))
    on_event.emit(event())
    begun.read_bytes()
    ((level, text),) = log.wait()
    assert level == "WARNING"
    assert str(tmp_path / "notify") in text
    assert text.endswith(": waits")
    on_event.close()


def test_a_missing_command_is_one_warning(tmp_path: Path, log: LogLines) -> None:
    on_event = EventCommand([str(tmp_path / "none")])
    on_event.emit(event())
    assert log.wait() == [("WARNING", f"--on-event: {tmp_path}/none can't be run (No such file or directory)")]
    on_event.close()


def test_one_command_runs_at_a_time_and_excess_events_are_counted(tmp_path: Path, log: LogLines) -> None:
    gate, begun, out = pipe(tmp_path / "gate"), pipe(tmp_path / "begun"), tmp_path / "out"
    body = f"echo >>{begun}; head -c1 <{gate} >/dev/null; cat >>{out}; echo sent"
    # Both ends stay open here, so that no script meets the end of a pipe.
    begins, gates = os.open(begun, os.O_RDWR), os.open(gate, os.O_RDWR)
    on_event = EventCommand(script(tmp_path / "notify", body), most=3)
    on_event.emit(event())
    assert os.read(begins, 1)
    for number in range(10):
        on_event.emit(event(100 + number))
    os.write(gates, b"." * 4)
    log.wait(4)
    on_event.close()
    os.close(begins)
    os.close(gates)
    events: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["at"], one["left_out"]) for one in events] == [(0, 0), (100, 7), (101, 0), (102, 0)]


def test_the_end_of_the_broker_ends_the_running_command(
    tmp_path: Path, log: LogLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "END_SECONDS", 0.1)
    begun = pipe(tmp_path / "begun")
    ended = pipe(tmp_path / "ended")
    body = f"trap 'echo >{ended}; exit 0' TERM; echo >{begun}; sleep 1000 & wait"
    on_event = EventCommand(script(tmp_path / "notify", body))
    on_event.emit(event())
    on_event.emit(event(1))
    begun.read_bytes()
    on_event.close()
    assert ended.read_bytes() == b"\n"
    assert not [line for line in log.lines if line[0] == "WARNING"]
