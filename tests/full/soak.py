"""A broker, a terminal and a rank that live long among 200 ranks: at the end nothing has grown.

``python -m tests.full.soak [--minutes M]`` (``make soak``) prints what has; the exit status is 1 then. A round has
steps, questions, an attach, a break-in, a kill, a restart and a revoked token. Rounds come every few seconds, so that a
machine that does other things too stays usable.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.docs.page_picture import waiting_crowd
from tests.support.environment import clean_environment, is_foreign
from tests.support.processes import Child, Processes, run_command
from tests.support.ranks import attach, attach_command, start_ranks, wait_until
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

LOGS = Path(__file__).parents[2] / "logs/soak"

LIGHT_RANKS = 197

ROUND_SECONDS = 10.0
"""Seconds between the beginnings of two rounds, which take two to five."""

WARM_UP = 0.4
"""The share of the samples that don't count: caches fill, and allocators take what they will keep."""

ALLOWED: Mapping[str, tuple[float, int]] = {
    "memory": (0.04, 3 * 1024),
    "threads": (0.0, 1),
    "descriptors": (0.0, 2),
    "zombies": (0.0, 0),
    "files": (0.0, 1),
}
"""How much each number may grow, as a share and in itself; memory is in KiB."""

SCRIPT = """\
import os, time
import dbg_agent
dbg_agent.install()
sleeps = os.environ["RANK"] != "0"
def count():
    number = 0
    if not sleeps:
        dbg_agent.set_trace()
    while True:
        number += 1
        if sleeps:
            time.sleep(0.05)
count()
"""

DETACH = "\x1dd"
JOB = "soak"
STAYING, BROKEN_INTO, KILLED = 0, 1, 2
"""Real ranks: one that stays stopped and is stepped, one that runs, one that is killed and starts again."""

PATIENCE = seconds(60)
"""Seconds for one step: here growth is measured, not time, and beside it other tests run."""

Sample = Mapping[tuple[str, str], int]
"""The numbers of one moment, by process and what is counted."""


class Life:
    """All processes, and one round of what they do."""

    def __init__(self, processes: Processes, home: Path) -> None:
        self._processes, self._home = processes, home
        self._environ = {**os.environ, "DBG_JOB": JOB}
        broker = waiting_crowd(processes, home, LIGHT_RANKS, 0)
        staying, _ = self._start(STAYING, 2)
        (self._restarted,) = self._start(KILLED, 1)
        self._wait_for_ranks()
        self._terminal = Terminal(attach_command(f"{JOB}/{STAYING}"), env=self._environ)
        self._terminal.wait_for("number", PATIENCE)
        self._pids = {"broker": broker.process.pid, "terminal": self._terminal.pid or 0, "rank": staying.pid}

    def _start(self, first: int, count: int) -> list[Child]:
        return start_ranks(
            self._processes, self._home, SCRIPT, count, env=self._environ, first=first, world_size=3, master_port=1
        )

    def _wait_for_ranks(self) -> None:
        def all_there(listed: list[dict[str, object]]) -> bool:
            return len([rank for rank in listed if rank["job"] == JOB]) == 3

        wait_until(self._home, all_there, "three real ranks", timeout=PATIENCE)

    def round(self, turn: int) -> None:
        """Do everything once, and return when all ranks are there again."""
        self._step()
        for words in (("eval", f"{JOB}/stopped", "1"), ("where", "*/all"), ("why", f"{JOB}/all")):
            result = attach(self._home, *words, "--json", timeout=PATIENCE)
            if not result.stdout:
                raise AssertionError(f"dbg-attach {words} ended with status {result.returncode}: {result.stderr}")
        self._look("--watch", f"{JOB}/{STAYING}")
        self._look("interrupt", f"{JOB}/{BROKEN_INTO}")
        gone_on = attach(self._home, "continue", f"{JOB}/{BROKEN_INTO}", "-y", timeout=PATIENCE)
        if gone_on.returncode != 0:
            raise AssertionError(f"the rank did not go on: {gone_on.stderr}")
        self._restarted.kill()
        self._restarted.wait()
        (self._restarted,) = self._start(KILLED, 1)
        self._token("--role", "watcher", "--name", f"guest-{turn}", "--for", "1h")
        self._token("--revoke", f"guest-{turn}")
        self._wait_for_ranks()

    def _step(self) -> None:
        for _ in range(5):
            del self._terminal.output[:]
            self._terminal.send("n")
            self._terminal.wait_for(lambda terminal: len(terminal.output) > 0, PATIENCE)

        def stands(listed: list[dict[str, object]]) -> bool:
            return [rank["state"] for rank in listed if (rank["job"], rank["rank"]) == (JOB, STAYING)] == ["stopped"]

        wait_until(self._home, stands, "the rank at its next line", timeout=PATIENCE)

    def _look(self, *words: str) -> None:
        """Attach, and leave."""
        with Terminal(attach_command(*words), env=self._environ) as terminal:
            terminal.wait_for("number", PATIENCE)
            terminal.send(DETACH)
            terminal.wait_for(lambda left: left.ended, PATIENCE)

    def _token(self, *words: str) -> None:
        result = run_command([sys.executable, "-m", "dbg_broker", "token", *words], self._environ, PATIENCE)
        if result.returncode != 0:
            raise AssertionError(f"dbg-broker token {words}: {result.stderr}")

    def sample(self) -> Sample:
        """Return the numbers of those that live for the whole time."""
        found = {(name, what): count for name, pid in self._pids.items() for what, count in numbers(pid).items()}
        files = sum(path.is_file() for path in self._home.rglob("*") if "homes" not in path.parts)
        return {**found, ("home", "files"): files}

    def end(self) -> None:
        """End the terminal; the processes are ended by their owner."""
        self._terminal.end()


def numbers(pid: int) -> dict[str, int]:
    """Return what a process holds, as the kernel counts it."""
    folder = Path(f"/proc/{pid}")
    status = (folder / "status").read_text()
    children = [child for task in (folder / "task").iterdir() for child in (task / "children").read_text().split()]
    return {
        "memory": int(status.partition("VmRSS:")[2].split()[0]),
        "threads": int(status.partition("Threads:")[2].split()[0]),
        "descriptors": len([*(folder / "fd").iterdir()]),
        "zombies": sum(_is_zombie(child) for child in children),
    }


def _is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return False


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return a line for each number whose last samples are above its first ones by more than is allowed."""
    counted = samples[int(len(samples) * WARM_UP) :]
    third = max(1, len(counted) // 3)
    lines = []
    for name, what in counted[0]:
        before, after = (median(one[name, what] for one in part) for part in (counted[:third], counted[-third:]))
        share, most = ALLOWED[what]
        if after - before > max(share * before, most):
            lines.append(f"{name} {what}: {before:.0f}, then {after:.0f}")
    return lines


def soak(life: Life, duration: float) -> int:
    """Go through rounds for so long; return the exit status."""
    began = time.monotonic()
    samples: list[Sample] = []
    while (now := time.monotonic()) < began + duration:
        life.round(len(samples))
        samples.append(life.sample())
        # The pace is what is wanted here, not an occurrence.
        time.sleep(max(0.0, now + ROUND_SECONDS - time.monotonic()))
    life.end()
    lines = grown(samples)
    print("\n".join([f"{len(samples)} rounds, {len(lines)} numbers have grown", *lines]))  # noqa: T201 - a command
    return 1 if lines else 0


def main(words: Sequence[str]) -> int:
    """Soak."""
    parser = argparse.ArgumentParser(prog="python -m tests.full.soak")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    minutes = parser.parse_args(words).minutes
    folder = Path(tempfile.mkdtemp(prefix="dbg-soak-"))
    home = folder / "dbg"
    home.mkdir(mode=0o700)
    for name in [name for name in os.environ if is_foreign(name)]:
        del os.environ[name]
    os.environ.update(clean_environment(os.environ, folder), DBG_HOME=str(home))
    processes = Processes(LOGS)
    try:
        return soak(Life(processes, home), minutes * 60)
    finally:
        processes.end_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
