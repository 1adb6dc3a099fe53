"""What happens again and again around the broker, the terminal and the rank that live for the whole time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.full.soak.crowd import Crowd
from tests.full.soak.observed import ask
from tests.support.processes import Child, Processes, run_command
from tests.support.ranks import attach, attach_command, start_ranks, wait_until
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

SCRIPT = """\
import os
import sys
import time

sys.path.insert(0, os.environ["SOAK_ROOT"])
from tests.full.soak.observed import observe

observe(os.environ["SOAK_SOCKET"] + os.environ["RANK"])
import dbg_agent

dbg_agent.install()


def count():
    number = 0
    if not sleeps:
        dbg_agent.set_trace()
    while True:
        number += 1
        if sleeps:
            time.sleep(0.05)


sleeps = os.environ["RANK"] != "0"
count()
"""

DETACH = "\x1dd"
JOB = "soak"
STAYING, BROKEN_INTO, KILLED = 0, 1, 2
"""Real ranks: one that stays stopped and is stepped, one that runs, one that is killed and starts again."""

PATIENCE = seconds(60)
"""Seconds for one step: here growth is measured, not time, and beside it other tests run."""

ROOT = Path(__file__).parents[3]


class Life:
    """All processes, and one round of what they do."""

    def __init__(self, processes: Processes, folder: Path, ranks: int) -> None:
        self._processes = processes
        self._folder = folder
        self.home = folder / "dbg"
        self.home.mkdir(mode=0o700)
        self._environ = os.environ | {
            "DBG_HOME": str(self.home),
            "DBG_JOB": JOB,
            "PYTHONPATH": str(ROOT),
            "SOAK_ROOT": str(ROOT),
            "SOAK_SOCKET": str(folder / "rank"),
        }
        broker = self._observed("broker", "dbg_broker.cli.main", "serve", "--listen", "127.0.0.1:0")
        started = processes.start("broker", broker, env=self._environ)
        url = started.wait_for_output(r"(wss://\S+?)[\s#]")[1]
        self._crowd = Crowd(ranks - 3, self.home, url)
        self._crowd.wait_until_all_are_there()
        start_ranks(processes, self.home, SCRIPT, 2, env=self._environ, world_size=3, master_port=1)
        self._restarted = self._start_again()
        self._wait_for_ranks()
        self._terminal = Terminal(
            self._observed("terminal", "dbg_client.command_line.main", f"{JOB}/{STAYING}"), env=self._environ
        )
        self._terminal.wait_for("number", PATIENCE)

    def _observed(self, name: str, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tests.full.soak.observed", str(self._folder / name), module, *arguments]

    def _start_again(self) -> Child:
        (self._folder / f"rank{KILLED}").unlink(missing_ok=True)
        (child,) = start_ranks(
            self._processes, self.home, SCRIPT, 1, env=self._environ, first=KILLED, world_size=3, master_port=1
        )
        return child

    def _wait_for_ranks(self) -> None:
        def all_there(listed: list[dict[str, object]]) -> bool:
            return len([rank for rank in listed if rank["job"] != "crowd"]) == 3

        wait_until(self.home, all_there, "three real ranks", timeout=PATIENCE)

    # ----------------------------------------------------------------------------------------------------- one round

    def round(self, turn: int) -> None:
        """Do everything once, and return when all ranks are there again."""
        self._step()
        self._ask()
        self._look_and_leave()
        self._break_in()
        self._crowd.crash_and_cut(turn)
        self._kill_and_restart()
        self._revoke(turn)
        self._crowd.wait_until_all_are_there()
        self._wait_for_ranks()

    def _step(self) -> None:
        for _ in range(5):
            del self._terminal.output[:]
            self._terminal.send("n")
            self._terminal.wait_for(lambda terminal: len(terminal.output) > 0, PATIENCE)

        def stands(listed: list[dict[str, object]]) -> bool:
            return [rank["state"] for rank in listed if (rank["job"], rank["rank"]) == (JOB, STAYING)] == ["stopped"]

        wait_until(self.home, stands, "the rank at its next line", timeout=PATIENCE)

    def _ask(self) -> None:
        for words in (("eval", "*/all", "1"), ("where", "*/all"), ("why", "crowd/100-120")):
            told = attach(self.home, *words, "--json", timeout=PATIENCE)
            if not told.stdout:
                raise AssertionError(f"dbg-attach {words} ended with status {told.returncode}: {told.stderr}")

    def _look_and_leave(self) -> None:
        with Terminal(attach_command(f"{JOB}/{STAYING}", "--watch"), env=self._environ) as terminal:
            terminal.wait_for("number", PATIENCE)
            terminal.send(DETACH)
            terminal.wait_for(lambda left: left.ended, PATIENCE)

    def _break_in(self) -> None:
        with Terminal(attach_command("interrupt", f"{JOB}/{BROKEN_INTO}"), env=self._environ) as terminal:
            terminal.wait_for("number", PATIENCE)
            terminal.send(DETACH)
            terminal.wait_for(lambda left: left.ended, PATIENCE)
        gone_on = attach(self.home, "continue", f"{JOB}/{BROKEN_INTO}", "-y", timeout=PATIENCE)
        if gone_on.returncode != 0:
            raise AssertionError(f"the rank did not go on: {gone_on.stderr}")

    def _kill_and_restart(self) -> None:
        os.kill(self._restarted.pid, signal.SIGKILL)
        self._restarted.wait()
        self._restarted = self._start_again()

    def _revoke(self, turn: int) -> None:
        name = f"guest-{turn}"
        self._token("--role", "watcher", "--name", name, "--for", "1h")
        self._token("--revoke", name)

    def _token(self, *words: str) -> None:
        told = run_command([sys.executable, "-m", "dbg_broker", "token", *words], self._environ, PATIENCE)
        if told.returncode != 0:
            raise AssertionError(f"dbg-broker token {words}: {told.stderr}")

    def rotate(self) -> None:
        """Exchange the tokens: all come again."""
        self._token("--rotate")
        self._crowd.wait_until_all_are_there()
        self._wait_for_ranks()

    # ----------------------------------------------------------------------------------------------------- the numbers

    def sample(self) -> Mapping[str, Mapping[str, int]]:
        """Return the numbers of those that live for the whole time."""
        named = {"broker": "broker", "terminal": "terminal", "rank": f"rank{STAYING}"}
        found = {name: ask(self._folder / socket) for name, socket in named.items()}
        files = sum(path.is_file() for path in self.home.rglob("*") if "homes" not in path.parts)
        return {**found, "home": {"files": files}}

    def end(self) -> None:
        """End the terminal and the crowd; the processes are ended by their owner."""
        self._terminal.end()
        self._crowd.end()
