"""A lane: three ranks with a terminal in PuDB, one in pdb and a question, whose way to the broker a fault may hit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.conftest import OpenTerminal
from tests.support.broker import Wrap
from tests.support.processes import Child, Processes
from tests.support.proxy import Proxy
from tests.support.pudb_terminal import DRAWN, HELP, line_shown
from tests.support.ranks import attach, attach_command, start_ranks
from tests.support.straight import counting
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

Leg = Literal["rank", "terminal"]
"""A connection to the broker: of the rank, or of the terminal."""

PUDB, PDB, ASKED = range(3)
"""Places of the three ranks in their lane."""

STEPS = 400
"""Lines to step over: more than the keys of all faults."""

SCRIPT = f"""\
import os, time
import dbg_agent
dbg_agent.install()
def flood(name):
    number = 0
    while not os.path.exists(name):
        print(f"<{{name}} {{number:05}}>")
        number += 1
        time.sleep(0.03)
    print(f"<{{name}} ended after {{number}}>")
def question(name):
    with open(f"asked-{{name}}", "a") as file:
        print("asked", file=file, flush=True)
    while not os.path.exists(name):
        time.sleep(0.01)
    return "answered"
def straight():
    n = 0
    seen = []
    dbg_agent.set_trace(engine="pdb" if int(os.environ["RANK"]) % 3 == {PDB} else "pudb")
{counting(STEPS)}    return n
straight()
"""
STOP = SCRIPT.splitlines().index(next(line for line in SCRIPT.splitlines() if "set_trace(" in line)) + 1
"""Line of the stop; the first step leads to the next one."""

SIGN = re.compile(r"\b(?:broker gone|broker silent|silent|away|lost|unresponsive) for [0-9]+ s")
"""What a terminal shows when rank or broker is not there."""

QUESTION_SECONDS = 4.0
"""The deadline of a question: before the broker would be called silent."""

ROWS, COLUMNS = 24, 110


@dataclass
class Way:
    """How one lane reaches the broker: on which host ranks and terminals are, and through which proxies."""

    name: str
    proxies: Mapping[Leg, Proxy] = field(default_factory=dict)
    rank_host: Wrap = list
    terminal_host: Wrap = list

    def variables(self, leg: Leg) -> dict[str, str]:
        """Return the variables by which this leg goes through its proxy, if it has one."""
        return {"DBG_BROKER": f"127.0.0.1:{self.proxies[leg].port}"} if leg in self.proxies else {}


class Lane:
    """The ranks and terminals of one way; the methods of its activities may be called from one thread each."""

    def __init__(
        self, way: Way, first: int, processes: Processes, home: Path, open_terminal: OpenTerminal, *, port: int
    ) -> None:
        self.way, self.first, self.home = way, first, home
        self._processes, self._open_terminal = processes, open_terminal
        self.ranks: list[Child] = start_ranks(
            processes, home, SCRIPT, 3, env=way.variables("rank"), first=first, master_port=port, world_size=first + 3,
            wrap=way.rank_host, name=f"{way.name}-",
        )  # fmt: skip

    def folder(self, place: int) -> Path:
        """Return the working directory of a rank."""
        return self.home / "homes" / f"{self.way.name}-{self.first + place}"

    def command(self, place: int, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Return a command line of ``dbg-attach`` for a rank of this lane, and its environment."""
        verb, *rest = arguments or ["attach"]
        command = self.way.terminal_host(attach_command(verb, str(self.first + place), *rest))
        return command, {**os.environ, "DBG_HOME": str(self.home), **self.way.variables("terminal")}

    def open(self, place: int) -> Terminal:
        """Return a terminal that is attached to a rank of this lane."""
        command, env = self.command(place)
        terminal = self._open_terminal(command, ROWS, COLUMNS, env=env)
        terminal.wait_for(DRAWN if place == PUDB else "(Pdb)")
        return terminal

    def start_question(self, name: str) -> Child:
        """Start a question that has no answer before :meth:`let_answer`; return when it is being evaluated."""
        command, env = self.command(ASKED, "eval", f"question({name!r})", "--timeout", str(QUESTION_SECONDS))
        child = self._processes.start("question", command, env=env)
        limit = time.monotonic() + seconds(20)
        while not self.times_asked(name):
            assert time.monotonic() < limit, "the question never came to the rank"
            assert not child.ends_within(0.02), child.text("stderr")
        return child

    def times_asked(self, name: str) -> int:
        """Return how many times the rank has evaluated a question."""
        file = self.folder(ASKED) / f"asked-{name}"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def let_answer(self, name: str) -> None:
        """Have the ranks end what they do for a fault."""
        for place in (PDB, ASKED):
            (self.folder(place) / name).touch()

    def ask_again(self) -> float:
        """Ask until the rank answers; return the seconds that took."""
        start = time.monotonic()
        while time.monotonic() < start + seconds(30):
            again = attach(
                self.home, "eval", str(self.first + ASKED), "1 + 1", "--timeout", "2",
                env=self.way.variables("terminal"), wrap=self.way.terminal_host,
            )  # fmt: skip
            if again.returncode == 0:
                return time.monotonic() - start
        raise AssertionError(f"no answer again: {again.stdout} {again.stderr}")


class Steps:
    """Keys to PuDB: each ``n`` is one line, so that the line tells how many were applied."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.terminal = lane.open(PUDB)
        self.typed = 0
        self.lost = self.doubled = 0

    def type(self, count: int) -> None:
        """Type so many steps."""
        self.terminal.send("n" * count)
        self.typed += count

    def settle(self, timeout: float | None = None) -> None:
        """Wait until all keys are applied, and note those that are lost or were applied twice."""
        wanted = STOP + self.typed
        try:
            self.terminal.wait_for(lambda it: line_shown(it) >= wanted, timeout)
        finally:
            line = line_shown(self.terminal)
            self.lost, self.doubled = max(0, wanted - line), max(0, line - wanted)

    def count_doubled(self) -> None:
        """Have PuDB take one more key, which comes after all others, and note whether it went too far meanwhile."""
        self.terminal.send("?")
        self.terminal.wait_for(HELP)
        self.terminal.send("\x1b")
        self.terminal.wait_for(lambda it: HELP not in "\n".join(it.screen))
        self.settle()


class Lines:
    """Numbered lines to pdb while a command prints, so that ``seen`` tells which were applied."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.terminal = lane.open(PDB)
        self.typed = 0
        self.lost = self.doubled = self.lines = self.lines_lost = 0
        self._start = 0

    def type(self, count: int) -> None:
        """Type so many numbered lines."""
        for number in range(self.typed, self.typed + count):
            self.terminal.send(f"seen.append({number})\r")
        self.typed += count

    def flood(self, name: str) -> None:
        """Begin to print numbered lines; return when they flow."""
        self._start = len(self.terminal.output)
        self.terminal.send(f"flood({name!r})\r")
        self.terminal.wait_for(lambda it: self._last(name) > 3)

    def _last(self, name: str) -> int:
        found = re.findall(rf"<{name} (\d+)>".encode(), self.terminal.output[-8192:])
        return int(found[-1]) if found else -1

    def flows(self, name: str) -> None:
        """Wait until lines come that were not printed before."""
        last = self._last(name)
        self.terminal.wait_for(lambda it: self._last(name) > last or b" ended after " in it.output[self._start :])

    def settle(self, name: str) -> None:
        """Wait until the command has ended, and note which output and which lines were lost or doubled."""
        ended = re.compile(rf"<{name} ended after (\d+)>".encode())
        self.terminal.wait_for(lambda it: ended.search(it.output, self._start))
        printed = ended.findall(self.terminal.output[self._start :])
        numbers = [int(n) for n in re.findall(rf"<{name} (\d+)>".encode(), self.terminal.output[self._start :])]
        assert len(printed) == 1, "the end was shown twice"
        assert numbers == sorted(set(numbers)), "a line was shown twice, or out of order"
        self.lines = int(printed[0])
        self.lines_lost = self.lines - len(numbers)
        self._compare()

    def _compare(self) -> None:
        self.terminal.send("print('seen', len(seen), len(set(seen)), seen == sorted(seen))\r")
        shown = re.compile(r"^seen (\d+) (\d+) (True|False)$", re.MULTILINE)
        self.terminal.wait_for(shown)
        answers = shown.findall("\n".join(self.terminal.screen))
        count, different, in_order = answers[-1]
        assert in_order == "True"
        self.lost, self.doubled = self.typed - int(different), int(count) - int(different)
        self.terminal.send("\x0c")
        self.terminal.wait_for(lambda it: it.row(0) == "(Pdb)")
