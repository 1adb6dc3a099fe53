"""``dbg-attach tmux`` from end to end: a real tmux, and in each pane the debugger of a rank."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states
from tests.support.requirements import needs_tmux
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

pytestmark = [needs_tmux, pytest.mark.usefixtures("broker")]


PROMPT = re.compile(r"^[#$] *$", re.MULTILINE)
"""The prompt of a plain shell, for root or another user."""

STOPPING = """\
import os
from dbg_agent import set_trace
my_rank_is = int(os.environ["RANK"])
set_trace()
print("ended", flush=True)
"""


class Server:
    """A tmux with a server of its own, whose environment has no variable of a broker."""

    def __init__(self, folder: str, processes: Processes) -> None:
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}
        self.environ |= {"TMUX_TMPDIR": folder}
        self._marked = processes.marked(self.environ)

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", *words], env=self._marked, capture_output=True, text=True, timeout=seconds(20), check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def panes(self, form: str = "#{pane_id}") -> list[str]:
        """Return one line for each pane of the current window, in order."""
        return self("list-panes", "-F", form).splitlines()

    def text(self, pane: str) -> str:
        return self("capture-pane", "-p", "-t", pane)


@pytest.fixture
def tmux(processes: Processes) -> Iterator[Server]:
    # pytest's own folder is too deep: the path of a socket has at most 107 characters.
    folder = tempfile.mkdtemp(prefix="dbg-tmux-test-")
    server = Server(folder, processes)
    yield server
    subprocess.run(["tmux", "kill-server"], env=server.environ, capture_output=True, check=False)
    shutil.rmtree(folder)


@pytest.fixture
def shell(tmux: Server, open_terminal: OpenTerminal) -> Terminal:
    """A terminal that shows a shell in tmux."""
    return shell_in(open_terminal, tmux, 60, 200)


def shell_in(open_terminal: OpenTerminal, tmux: Server, rows: int, cols: int) -> Terminal:
    terminal = open_terminal(["tmux", "-f", "/dev/null", "new-session", "sh"], rows, cols, tmux.environ)
    terminal.wait_for(PROMPT)
    return terminal


def in_shell(home: Path, *arguments: str) -> str:
    """Return the line to type, with variables for this command alone."""
    return f"DBG_HOME={shlex.quote(str(home))} {shlex.join(attach_command(*arguments))}\r"


def on_screen(terminal: Terminal, text: str, times: int) -> None:
    terminal.wait_for(lambda it: "\n".join(it.screen).count(text) == times, seconds(40))


def command_lines() -> list[str]:
    """Return the command lines of all processes here."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "cmdline").read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def test_a_tmux_window_has_a_pane_for_each_rank_in_order(
    processes: Processes, home: Path, tmux: Server, shell: Terminal
) -> None:
    ranks = start_ranks(processes, home, STOPPING, 4)
    wait_until_states(home, dict.fromkeys(range(4), "stopped"))

    shell.send(in_shell(home, "tmux", "0-3"))

    on_screen(shell, "Variables:", 4)
    panes = tmux.panes()
    assert len(panes) == 4
    for rank, pane in enumerate(panes):
        assert f"my_rank_is: {rank}" in tmux.text(pane)
    widths = [int(width) for width in tmux.panes("#{pane_width}")]
    assert max(widths) - min(widths) <= 1
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait() for rank in ranks] == [0] * 4


def test_panes_get_the_token_only_from_a_file(
    processes: Processes, home: Path, broker: RunningBroker, tmux: Server, shell: Terminal
) -> None:
    start_ranks(processes, home, STOPPING, 2)
    wait_until_states(home, {0: "stopped", 1: "stopped"})
    token = broker.tokens["driver"]
    file = home / "own token"
    file.write_text(token)
    file.chmod(0o600)
    address = f"{broker.url}#{broker.rendezvous['fingerprint']}"
    secret = home / "export; #{pane_id} 'it'"
    secret.write_text(f"export DBG_TOKEN={token} DBG_BROKER={address} DBG_HOME={home / 'none'}\n")
    panes = shlex.join(attach_command("tmux", "stopped"))

    shell.send(f". {shlex.quote(str(secret))}; clear; {panes}\r")
    shell.wait_for("set DBG_TOKEN_FILE")
    assert not any(token in line for line in command_lines())
    shell.send(f"unset DBG_TOKEN; clear; DBG_TOKEN_FILE={shlex.quote(str(file))} {panes}\r")
    on_screen(shell, "Variables:", 2)
    assert len(tmux.panes()) == 2
