"""The driver's token that no file holds: terminals of the broker's host get one, or the user types it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_broker.verbs.credentials import DRIVERS_PROMPT
from dbg_client.cli.main import ASK_PROMPT
from dbg_dial.memory import ask_memory, socket_name
from tests.support.processes import run_command
from tests.support.ranks import attach_command
from tests.support.serving import Serve, environment, run
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

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


def attach(home: Path, *arguments: str, changes: dict[str, str]) -> tuple[int, str]:
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
    assert attach(home, "list", changes=this_host)[0] == 0
    assert run(home, "status", changes=this_host).returncode == 0
    assert run(home, "check", changes=this_host).returncode == 0

    assert sorted(path.name for path in (home / "tokens").iterdir()) == ["rank"]
    for text in set(re.findall(r"[A-Za-z0-9_.-]{16,}", texts_of(home))) | {f"{old}-driver", f"{old}-watcher"}:
        status, said = attach(home, "list", changes={**other_host, "DBG_TOKEN": text})
        assert status == 5, (text, said)

    status, said = attach(home, "list", changes=other_host)
    assert (status, said.count("\n")) == (2, 1)
    assert socket.gethostname() in said
    printed = run(home, "token", "--role", "driver", "--for", "1h", changes=this_host)
    assert attach(home, "list", changes={**other_host, "DBG_TOKEN": printed.stdout.strip()})[0] == 0
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


def broker_that_asks(home: Path, typed: str) -> Terminal:
    command = [sys.executable, "-m", "dbg_broker", "serve", "--listen", "127.0.0.1:0", "--driver-token", "ask"]
    terminal = Terminal(command, 40, 160, environment(home))
    terminal.wait_for(DRIVERS_PROMPT.strip())
    terminal.send(f"{typed}\r")
    terminal.wait_for("ready at")
    return terminal


def list_by_typing(home: Path, token: str, *, variable: bool = False) -> tuple[int, str]:
    command = attach_command("list", *([] if variable else ["--ask-token"]))
    with Terminal(command, 24, 160, environment(home, {"DBG_ASK_TOKEN": "1"} if variable else {})) as terminal:
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
        assert attach(home, "list", changes={})[0] == 2
        assert attach_without_terminal(home) == 2


def attach_without_terminal(home: Path) -> int:
    # A new session has no controlling terminal.
    program = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", program, *attach_command("list", "--ask-token")]
    return run_command(command, environment(home), seconds(60)).returncode
