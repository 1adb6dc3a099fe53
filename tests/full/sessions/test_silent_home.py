"""A home whose file server does not answer: commands to ranks report it, and Ctrl-C ends it at once."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.processes import Child, Processes
from tests.support.requirements import missing_for_silent_home
from tests.support.silent_home import silent

REASON = missing_for_silent_home()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

COMMANDS = {
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


def test_each_command_reports_the_silent_file_server_of_the_home(processes: Processes, tmp_path: Path) -> None:
    # All at once, as each of them waits for five seconds.
    started = {
        name: start(processes, tmp_path, name, silent(tmp_path, module(words))) for name, words in COMMANDS.items()
    }
    for name, command in started.items():
        named = str(tmp_path / TOUCHED.get(name, ""))
        assert (command.wait(), named in command.text("stderr")) == (4, True), command.tail()
        assert "Traceback" not in command.text("stderr")


@pytest.mark.parametrize("name", ["list", "adopt"])
def test_ctrl_c_ends_a_command_that_waits_for_the_home(processes: Processes, tmp_path: Path, name: str) -> None:
    command = start(processes, tmp_path, name, silent(tmp_path, module(COMMANDS[name])))
    command.wait_for_output("touched", stream="stderr")
    command.signal(signal.SIGINT)
    assert command.wait() == 130
    assert command.text("stderr").replace("touched\n", "") == ""
