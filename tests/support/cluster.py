"""Several real brokers that act as one: each with a home of its own, all with the same tokens."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.nats_servers import NatsServers
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import NEVER_BOUND_PORTS, ask, attach, attach_command, start_ranks, texts, wait_until_states
from tests.support.serving import run
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds


def make_home(home: Path, tokens: Path) -> Path:
    """Make a home with a copy of the tokens that all brokers have; the first one makes them."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not tokens.exists():
        tokens.mkdir(mode=0o700)
    shutil.copytree(tokens, home / "tokens", dirs_exist_ok=True)
    (home / "tokens").chmod(0o700)
    return home


class Brokers(Sequence[RunningBroker]):
    """Brokers of one cluster, all of which know each other."""

    def __init__(self, processes: Processes, nats: NatsServers, directory: Path, tokens: Path) -> None:
        self._processes, self._nats, self._directory, self._tokens = processes, nats, directory, tokens
        self._brokers: list[RunningBroker] = []

    def __getitem__(self, number: Any) -> Any:
        return self._brokers[number]

    def __len__(self) -> int:
        return len(self._brokers)

    @property
    def homes(self) -> list[Path]:
        return [broker.home for broker in self._brokers]

    def add(self, *arguments: str) -> RunningBroker:
        """Start another one, and return when it and the others know each other."""
        home = make_home(self._directory / f"home{len(self._brokers)}", self._tokens)
        words = ("-v", "--cluster", self._nats.url, *arguments)
        broker = running_broker(self._processes, home, *words)
        if not any(self._tokens.iterdir()):
            shutil.copytree(home / "tokens", self._tokens, dirs_exist_ok=True)
        self._brokers.append(broker)
        self.wait_until_joined()
        return broker

    def start_rank(self, number: int, script: str, **options: Any) -> Child:
        broker = self._brokers[number]
        env = {"DBG_BROKER": f"127.0.0.1:{broker.port}"}
        (rank,) = start_ranks(self._processes, broker.home, script, 1, env=env, **options)
        return rank

    def start_one_at_each(self, script: str, count: int = 3) -> list[Child]:
        """Start a job with one rank at each of so many brokers."""
        port = next(NEVER_BOUND_PORTS)
        return [
            self.start_rank(number, script, first=number, world_size=count, master_port=port) for number in range(count)
        ]

    def restart(self, broker: RunningBroker) -> None:
        """Start an ended one again, and return when it and the others know each other."""
        broker.restart()
        self.wait_until_joined()

    def wait_until_joined(self) -> None:
        """Return when each of those that run knows each other one that runs."""
        there = [broker for broker in self._brokers if broker.process.exit_status is None]
        for broker in there:
            for other in there:
                if other is not broker:
                    pattern = rf"broker \S+-{other.process.pid}-\S+ joined"
                    broker.process.wait_for_output(pattern, stream="stderr")

    def name_of(self, broker: RunningBroker) -> str:
        """Return the name of a broker in the cluster, as another one has logged it."""
        other = next(one for one in self._brokers if one is not broker and one.process.exit_status is None)
        pattern = rf"broker (\S+-{broker.process.pid}-\S+) joined"
        return other.process.wait_for_output(pattern, stream="stderr")[1]

    @staticmethod
    def until(holds: Callable[[], bool]) -> None:
        """Wait until something holds that is written to files, or that a broker tells."""
        deadline = time.monotonic() + seconds(20)
        while not holds():
            assert time.monotonic() < deadline, "it did not come to hold"
            time.sleep(0.05)

    def status(self, broker: RunningBroker) -> dict[str, Any]:
        command = [sys.executable, "-m", "dbg_broker", "status", "--json"]
        completed = subprocess.run(command, env=broker.environment, capture_output=True, text=True, check=True)
        document: dict[str, Any] = json.loads(completed.stdout)
        return document


STOPPED = """\
from dbg_agent import set_trace
n = 40 + 2
set_trace()
print("went on", flush=True)
"""

DIAL = """\
import http.client, ssl, sys
from urllib.parse import urlsplit
connection = http.client.HTTPSConnection(urlsplit(sys.argv[1]).netloc, context=ssl._create_unverified_context())
connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {sys.argv[2]}"})
print(connection.getresponse().status)
"""


def seat(open_terminal: OpenTerminal, broker: RunningBroker, *arguments: str) -> Terminal:
    """Return a terminal of a broker in the PuDB of a rank, whichever broker has that."""
    command = attach_command(*arguments)
    terminal = open_terminal(command, 24, 100, env=environment(broker))
    terminal.wait_for(DRAWN)
    return terminal


def environment(broker: RunningBroker) -> Mapping[str, str]:
    return {**os.environ, "DBG_HOME": str(broker.home)}


def owners(brokers: Brokers) -> dict[int, RunningBroker]:
    """Return the broker at which each rank has registered last; the ranks are on this host."""
    found: dict[int, tuple[str, RunningBroker]] = {}
    for broker in brokers:
        # A line begins with its time.
        pattern = r"^(\S+ \S+) INFO \S+:(\d+) \(\S+\) is (?:stopped|running)$"
        for at, rank in re.findall(pattern, broker.process.text("stderr"), re.MULTILINE):
            found[int(rank)] = max(found.get(int(rank), ("", broker)), (at, broker), key=lambda one: one[0])
    return {rank: broker for rank, (_, broker) in found.items()}


def stopped_everywhere(brokers: Brokers, count: int) -> None:
    """Wait until each broker that runs lists so many ranks, and all of them stopped."""
    for broker in brokers:
        if broker.process.exit_status is None:
            wait_until_states(broker.home, dict.fromkeys(range(count), "stopped"), timeout=60.0)


def let_all_go(broker: RunningBroker, ranks: list[Child]) -> None:
    name = f"0-{len(ranks) - 1}" if len(ranks) > 1 else "0"
    # On a busy machine a broker may miss a heartbeat, and its ranks are away for a moment.
    Brokers.until(lambda: texts(ask(broker.home, "eval", "all", "n")) == {name: "42"})
    completed = attach(broker.home, "continue", "all", "-y")
    assert completed.returncode == 0, completed.stderr
    assert [rank.wait() for rank in ranks] == [0] * len(ranks)
    assert [rank.text() for rank in ranks] == ["went on\n"] * len(ranks)


def issue(broker: RunningBroker, name: str, role: str = "watcher") -> str:
    made = run(broker.home, "token", "--role", role, "--name", name)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def admits(broker: RunningBroker, token: str) -> bool:
    """Tell whether a broker takes a terminal with this token; `dbg-attach` would go on to another one."""
    check = [sys.executable, "-c", DIAL, broker.url, token]
    asked = subprocess.run(check, capture_output=True, text=True, timeout=seconds(60), check=True)
    return asked.stdout == "200\n"
