"""A home whose file server does not answer: each command says so, and Ctrl-C ends it at once."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dbg_broker.home.private_files import open_home
from dbg_broker.journal.audit import append
from dbg_broker.journal.entries import encode_entry
from dbg_command.audit import Entry, What
from dbg_wire.errors import SilentFile
from tests.support.processes import Child, Processes
from tests.support.requirements import missing_for_silent_home
from tests.support.silent_home import silenced_for, silent

REASON = missing_for_silent_home()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

COMMANDS = {
    "status": "dbg_broker status",
    "check": "dbg_broker check",
    "token": "dbg_broker token",
    "log": "dbg_broker log",
    "certificate": "dbg_broker certificate",
    "run": "dbg_client run -- true",
    "serve": "dbg_broker serve",
    "list": "dbg_client list --timeout 5",
    "a remembered group": "dbg_client continue @1 -y --timeout 5",
    "adopt": "dbg_client adopt --mine --timeout 5",
}
TOUCHED = {"a remembered group": "groups"}
"""What of the silent directory a command names, if that is not the directory itself or one below it."""


def module(words: str) -> list[str]:
    return [sys.executable, "-m", *shlex.split(words)]


def start(processes: Processes, home: Path, name: str, command: Sequence[str]) -> Child:
    return processes.start(name, command, env={**os.environ, "DBG_HOME": str(home)})


def test_every_command_tells_that_the_homes_file_server_is_silent(processes: Processes, tmp_path: Path) -> None:
    # All at once, as each of them waits for five seconds.
    started = {
        name: start(processes, tmp_path, name, silent(tmp_path, module(words))) for name, words in COMMANDS.items()
    }
    for name, command in started.items():
        named = str(tmp_path / TOUCHED.get(name, ""))
        assert (command.wait(), named in command.text("stderr")) == (4, True), command.tail()
        assert "Traceback" not in command.text("stderr")


@pytest.mark.parametrize("name", ["serve", "list", "adopt"])
def test_ctrl_c_ends_a_command_that_waits_for_the_home(processes: Processes, tmp_path: Path, name: str) -> None:
    command = start(processes, tmp_path, name, silent(tmp_path, module(COMMANDS[name])))
    command.wait_for_output("touched", stream="stderr")
    command.signal(signal.SIGINT)
    assert command.wait() == 130
    assert command.text("stderr").replace("touched\n", "") == ""


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_home_that_falls_silent_under_a_log_that_is_followed(
    processes: Processes, tmp_path: Path, is_interrupted: bool
) -> None:
    home = open_home(str(tmp_path / "home"))
    append(home, encode_entry(Entry(at=1.0, what=What.START, text="first")))
    follow = start(processes, home, "log", ["unshare", "--mount", *module("dbg_broker log --follow")])
    follow.wait_for_output("first")
    server = start(processes, home, "server", silenced_for(follow.pid, home))
    server.wait_for_output("silent")
    # The kernel still tells of a file that grows, and then the log asks for its name.
    append(home, encode_entry(Entry(at=2.0, what=What.START, text="second")))
    server.wait_for_output("touched", stream="stderr")
    if is_interrupted:
        follow.signal(signal.SIGINT)
        assert (follow.wait(), follow.text("stderr")) == (130, "")
    else:
        assert follow.wait() == 4
        assert str(SilentFile(str(home / "audit.jsonl"))) in follow.text("stderr")
