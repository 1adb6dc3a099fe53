"""How the adapter is reached and left: pipes, a port with a secret, bytes that are no protocol, a watcher's token."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dbg_client.faces.dap.launch_json import entry_for
from dbg_client.faces.dap.serve import NEXT_SESSION
from tests.support.broker import running_broker
from tests.support.ide import Refused, ide, ide_at, ide_environment
from tests.support.processes import Processes
from tests.support.ranks import start_ranks, wait_until_states

TRAIN = "import dbg_agent\nloss = 0.5\ndbg_agent.set_trace()\nloss += 1\nloss += 1\n"


@contextmanager
def port(home: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve IDEs on a free port; yield the process and the port that it tells."""
    command = [sys.executable, "-m", "dbg_client", "dap", *words, "--port", "0"]
    with subprocess.Popen(command, env=ide_environment(home), stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(told(process, r"127\.0\.0\.1:(\d+)"))
        finally:
            process.kill()


def told(process: subprocess.Popen[str], pattern: str) -> str:
    """Return what a server tells on stderr behind these words."""
    assert process.stderr is not None
    for line in process.stderr:
        match = re.search(pattern, line)
        if match is not None:
            return match[1]
    raise AssertionError(f"it has not told {pattern}")


def test_a_port_takes_one_ide_at_a_time_by_the_secret_of_its_turn(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"})
    with port(home, "0") as (server, number):
        secret = told(server, rf"{NEXT_SESSION}(\S+)")
        with ide_at(number) as stranger, pytest.raises(Refused):
            stranger.attach()
        # Others on this host keep no IDE off by connecting and saying nothing.
        with ExitStack() as silent:
            for _ in range(8):
                silent.enter_context(socket.create_connection(("127.0.0.1", number)))
            late = silent.enter_context(ide_at(number))
            with pytest.raises(Refused):
                late.attach()
        with ide_at(number) as window, ide_at(number) as second:
            window.attach(secret=secret)
            assert window.evaluate("loss", window.top(window.stop_of(0))["id"], "watch") == "0.5"
            with pytest.raises(Refused):
                second.attach(secret=secret)
            window.leave()
        again = told(server, rf"{NEXT_SESSION}(\S+)")
        with ide_at(number) as window:
            with pytest.raises(Refused):
                window.attach(secret=secret)
            window.request("attach", {"secret": again})
            window.leave()
    with port(home, "--no-secret") as (_, number), ide_at(number) as window:
        window.attach(target="0")
        window.leave()
    wait_until_states(home, {0: "stopped"})


def test_vs_code_starts_the_adapter_by_its_path_and_a_watcher_only_looks(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"})
    watcher = {"DBG_TOKEN_FILE": str(home / "tokens" / "watcher")}
    # The extension starts the interpreter with the path, and with words of its own behind it.
    path = str(entry_for("all")["debugAdapterPath"])
    with ide(home, path, "--log-dir", "/nowhere", variables=watcher) as window:
        rows = window.attach({home / "rank_script.py": [{"line": 5}]}, target="0")
        assert rows[0]["verified"] is False
        assert "watcher" in rows[0]["message"]
        thread = window.stop_of(0)
        assert window.top(thread)["line"] in (3, 4)
        for request in ("next", "continue"):
            with pytest.raises(Refused):
                window.request(request, {"threadId": thread})
        window.leave()
    wait_until_states(home, {0: "stopped"})


def test_launch_json_is_written_and_kept(home: Path, tmp_path: Path) -> None:
    def write(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dbg_client", "dap", *words, "--vscode"]
        return subprocess.run(
            command, cwd=tmp_path, env=ide_environment(home), capture_output=True, text=True, check=False
        )

    first = write()
    file = tmp_path / ".vscode" / "launch.json"
    (entry,) = json.loads(file.read_text())["configurations"]
    assert entry["debugAdapterPython"] == sys.executable
    assert os.access(entry["debugAdapterPath"], os.R_OK)
    assert "Run and Debug" in first.stdout
    assert "PyCharm" in first.stdout
    assert "nvim-dap" in first.stdout
    text = file.read_text().replace("[", "[ // mine", 1)
    file.write_text(text)
    assert "has the entry 'Ranks: all' already" in write().stdout
    assert file.read_text() == text
    assert write("train/0-7").returncode == 0
    assert "// mine" in file.read_text()
    file.write_text("[]")
    refused = write()
    assert refused.returncode == 2
    assert '"debugAdapterPath"' in refused.stderr
    assert file.read_text() == "[]"
