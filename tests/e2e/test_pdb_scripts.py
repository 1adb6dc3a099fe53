"""CPython's own tests of pdb over the real path: a broker, ranks that are processes, and ``dbg-attach`` in a window."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.pdb_terminal import PdbWindow
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.unit.agent import pdb_scripts
from tests.unit.agent.pdb_programs import Ran, drive_program
from tests.unit.agent.pdb_scripts import Event, conversations, differences, driven, programs

pytestmark = [
    pytest.mark.skipif(pdb_scripts.source_of_tests() is None, reason="this Python came without its own tests"),
]

ROOT = Path(__file__).parents[2]

ENOUGH = 40 if sys.version_info >= (3, 11) else 35
"""Scripts that must run at least; Python 3.10 has fewer than 40 that a rank can run."""

SHARES = 2
"""Tests over which the programs are spread, so that two may run at once."""


class Ranks:
    """The processes of scripts, each with a window and a file for what its program prints."""

    def __init__(self, processes: Processes, broker: RunningBroker, open_terminal: OpenTerminal, folder: Path) -> None:
        self._broker = broker
        self._processes = processes
        self._open_terminal = open_terminal
        self._folder = folder
        self._count = 0

    def start(self, arguments: list[str], env: Mapping[str, str]) -> tuple[Child, PdbWindow]:
        self._count += 1
        job = f"script{self._count}"
        noted = self._folder / f"printed-{self._count}"
        variables = {
            **env,
            "DBG_HOME": str(self._broker.home),
            "DBG_JOB": job,
            "PYTHONPATH": str(ROOT),
            "PDB_SCRIPT_EVENTS": str(noted),
        }
        if "--stop-first" in arguments:
            # `python -m pdb` reads .pdbrc too.
            variables["DBG_PDBRC"] = "1"
        command = [sys.executable, "-m", "tests.unit.agent.pdb_script_rank", *arguments]
        child = self._processes.start("rank", command, env=variables, cwd=Path.cwd())
        return child, PdbWindow(self._open_terminal, child, job, noted)


@pytest.fixture
def ranks(processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path) -> Ranks:
    return Ranks(processes, running_broker(processes, home), open_terminal, tmp_path)


class Prompter:
    """The next line to type, found from the rank's notes of the conversation that runs."""

    def __init__(self) -> None:
        self._name = ""
        self._lines: Iterator[str] = iter(())

    def __call__(self, noted: list[Event]) -> str:
        """Return the next line of the running script; past its end, ``continue`` leads to the next script."""
        for event in noted:
            if event[0] == "conversation":
                self._name = str(event[1])
            elif event[0] == "begin":
                self._lines = iter(conversations()[self._name].lines_of(int(str(event[1]))) or ())
        return next(self._lines, "continue")


def by_conversation(events: list[Event]) -> dict[str, list[Event]]:
    """Return the events of each conversation by its name."""
    seen: dict[str, list[Event]] = {}
    name = ""
    for event in events:
        if event[0] == "conversation":
            name = str(event[1])
        seen.setdefault(name, []).append(event)
    return seen


def on_screen(text: str) -> str:
    """Return a text as a screen shows it: tabs are expanded, and blanks at the end of a line are lost."""
    return "".join(f"{line.expandtabs().rstrip()}\n" for line in text.splitlines())


def test_conversations(ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = driven(conversations())
    child, window = ranks.start(["conversations", *names], os.environ)
    assert window.drive(Prompter())
    assert child.wait() == 0
    seen = by_conversation(window.events)
    wrong = [text for name in names for text in differences(conversations()[name], seen.get(name, []), on_screen)]
    assert not wrong, "\n".join(wrong)
    assert len(names) + len(driven(programs())) >= ENOUGH


@pytest.mark.parametrize("share", range(SHARES))
def test_programs(ranks: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    def run(arguments: list[str], lines: list[str], env: Mapping[str, str]) -> Ran:
        child, window = ranks.start(["program", *arguments], env)
        fed = iter(lines)
        if not window.drive(lambda _: next(fed, None)):
            child.kill()
        status = child.wait()
        # Lines of the agent on stderr are left out, since stock pdb prints none.
        said = [line for line in child.text("stderr").splitlines() if not line.startswith("dbg-agent: ")]
        return Ran(window.events, status if status >= 0 else None, "\n".join(said))

    for name in driven(programs())[share::SHARES]:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        drive_program(name, run)
