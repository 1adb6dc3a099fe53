"""A broker, and lanes of ranks and terminals that several faults in turn are tried on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.conftest import OpenTerminal
from tests.full.hosts.figures import Figures
from tests.full.hosts.lane import SIGN, Lane, Lines, Steps, Way
from tests.full.hosts.table_of_faults import Fault, Shows
from tests.support.broker import RunningBroker, Wrap, running_broker
from tests.support.netns import Host
from tests.support.processes import Child, Processes
from tests.support.proxy import Proxy
from tests.support.ranks import NEVER_BOUND_PORTS, attach_list, wait_until, wait_until_stopped
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

T = TypeVar("T")

EVERYWHERE = "0.0.0.0"  # noqa: S104 - of a network of the test's own

KEPT = ("address", "job", "run", "pid", "state", "reason", "engine")
"""What a fault must not change of a rank in the list."""


def each(items: Sequence[T], act: Callable[[T], Any]) -> list[Any]:
    """Do this for all items at once, each in a thread, and return what came of it; raise the first error."""
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(act, items))


def since(start: float) -> float:
    """Return the seconds since a moment."""
    return time.monotonic() - start


class Stage:
    """All that stands while faults come and go."""

    def __init__(
        self,
        broker: RunningBroker,
        ways: Sequence[Way],
        processes: Processes,
        open_terminal: OpenTerminal,
        hosts: tuple[Host, Host] | None = None,
    ) -> None:
        self.hosts = hosts
        self.wrap: Wrap = list if hosts is None else hosts[0].command
        self.broker: RunningBroker = broker
        self.home = broker.home
        self._processes = processes
        port = next(NEVER_BOUND_PORTS)
        self.lanes = {
            way.name: Lane(way, 3 * number, processes, broker.home, open_terminal, port=port)
            for number, way in enumerate(ways)
        }
        wait_until_stopped(self.home, 3 * len(ways), seconds(60), wrap=self.wrap)
        self.steps = {name: Steps(lane) for name, lane in self.lanes.items()}
        self.lines = {name: Lines(lane) for name, lane in self.lanes.items()}
        for steps in self.steps.values():
            steps.type(3)
            steps.settle()

    def guards(self) -> list[int]:
        """Return the guards of the ranks of the lane without proxies."""
        ranks = {rank.pid for rank in self.lanes["direct"].ranks}
        return [pid for pid in self._processes.strays() if guarded_by(pid) & ranks]

    def terminals(self, name: str) -> list[Terminal]:
        """Return the terminals of a lane."""
        return [self.steps[name].terminal, self.lines[name].terminal]

    def undergo(self, fault: Fault) -> list[Figures]:
        """Let a fault begin and end, and return what was measured at each place that it hits."""
        before = kept(attach_list(self.home, wrap=self.wrap))
        trials = [Trial(self, name, fault) for name in fault.where]
        each(trials, Trial.prepare)
        begun = time.monotonic()
        fault.start(self)
        each(trials, lambda trial: trial.during(begun))
        fault.end(self)
        ended = time.monotonic()
        each(trials, lambda trial: trial.after(ended))
        wait_until(self.home, lambda ranks: kept(ranks) == before, "the same stops as before", wrap=self.wrap)
        return [trial.figures() for trial in trials]


def kept(ranks: list[dict[str, Any]]) -> list[list[Any]]:
    """Return what must stay as it is of all ranks."""
    return sorted(([rank[name] for name in KEPT] for rank in ranks), key=str)


def guarded_by(pid: int) -> set[int]:
    """Return the rank that a process guards, or nothing."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return set()
    return {parent} if any(word.endswith(b"guard/process.py") for word in words) else set()


class Trial:
    """One fault at one lane."""

    def __init__(self, stage: Stage, name: str, fault: Fault) -> None:
        self.name, self.fault = name, fault
        self.lane, self.steps, self.lines = stage.lanes[name], stage.steps[name], stage.lines[name]
        self._typed = self.steps.typed, self.lines.typed
        self._question: Child = self.lane.start_question(fault.word)
        self._question_ended: float | None = None
        self._noticed: float | None = None
        self._back = 0.0

    def prepare(self) -> None:
        """Begin what the fault comes into the middle of, and type keys that are still under way then."""
        self.lines.flood(self.fault.word)
        self.steps.type(6)
        self.lines.type(2)

    def during(self, begun: float) -> None:
        """Type, and wait for what the user sees."""
        for typist in (self.steps, self.lines):
            typist.type(4)
        if self.fault.shows in (Shows.NOTICE, Shows.NOTICE_IF_QUIET):
            limit = seconds(20)
            loud = [self.lines.terminal] if self.fault.shows is Shows.NOTICE else []
            terminals = [self.steps.terminal, *loud]
            self._noticed = max(each(terminals, lambda terminal: self._notice(terminal, begun, limit)))
        elif self.fault.shows is Shows.NOTHING:
            each([self.steps.settle, lambda: self.lines.flows(self.fault.word)], lambda wait: wait())
            self._back = since(begun)

    def _notice(self, terminal: Terminal, begun: float, limit: float) -> float:
        terminal.wait_for(SIGN, limit)
        return since(begun)

    def after(self, ended: float) -> None:
        """Type again; return when all is applied and shown, and count what was lost or doubled."""
        for typist in (self.steps, self.lines):
            typist.type(2)
        each([self.steps.settle, lambda: self.lines.flows(self.fault.word)], lambda wait: wait())
        self._back = max(self._back, since(ended))
        self.steps.count_doubled()
        # The rank takes questions in order, so the one that is still evaluated would delay the next one.
        self.lane.let_answer(self.fault.word)
        self.lane.ask_again()
        self.lines.settle(self.fault.word)

    def figures(self) -> Figures:
        """Return what was measured."""
        status = self._question.wait()
        assert self.lane.times_asked(self.fault.word) == 1, "the question was evaluated again"
        typed = self.steps.typed - self._typed[0] + self.lines.typed - self._typed[1]
        return Figures(
            fault=self.fault.name,
            where=self.name,
            noticed=self._noticed,
            back=self._back,
            keys=typed,
            lost=self.steps.lost + self.lines.lost,
            doubled=self.steps.doubled + self.lines.doubled,
            lines=self.lines.lines,
            lines_lost=self.lines.lines_lost,
            question="answered" if status == 0 else f"exit {status}",
        )


@contextmanager
def proxied_stage(processes: Processes, home: Path, open_terminal: OpenTerminal) -> Iterator[Stage]:
    """Yield a stage on this host, with a proxy in each lane but ``direct``."""
    with ExitStack() as stack:
        broker = running_broker(processes, home)

        def proxy() -> Proxy:
            return stack.enter_context(Proxy(("127.0.0.1", broker.port)))

        ways = [
            Way("rank", {"rank": proxy()}),
            Way("terminal", {"terminal": proxy()}),
            Way("both", {"rank": proxy(), "terminal": proxy()}),
            Way("direct"),
        ]
        yield Stage(broker, ways, processes, open_terminal)


@contextmanager
def two_host_stage(
    hosts: tuple[Host, Host], processes: Processes, home: Path, open_terminal: OpenTerminal
) -> Iterator[Stage]:
    """Yield a stage whose broker is on the first of two hosts; what a lane is named for is on the second one."""
    here, there = hosts
    broker = running_broker(processes, home, listen=EVERYWHERE, wrap=here.command)
    ways = [
        Way("rank", rank_host=there.command, terminal_host=here.command),
        Way("terminal", rank_host=here.command, terminal_host=there.command),
        Way("both", rank_host=there.command, terminal_host=there.command),
    ]
    yield Stage(broker, ways, processes, open_terminal, hosts)
