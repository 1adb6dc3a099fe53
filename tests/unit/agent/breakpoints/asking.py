"""Questions about breakpoints to a rank without a network, and a program in a file of its own."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from dbg_agent.breakpoints import startup_stops
from dbg_agent.breakpoints.conditional_stop import mechanism
from dbg_wire.messages import Action, Ask
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, BreakpointState, LineOfFile
from tests.unit.agent.pdb_driver import SECONDS, Driver
from tests.unit.agent.pudb_viewer import Viewer

NUMBERS = itertools.count(100)


def loaded(folder: Path, source: str, name: str = "program") -> ModuleType:
    """Return a module that has just run, from a file of its own."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def stops_served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the program stop at the stops of the command line, and at breakpoints that are set in this context."""
    if sys.version_info < (3, 12):
        from dbg_agent.breakpoints import at_import

        monkeypatch.setattr(at_import, "_served", [])
    used = mechanism(startup_stops.reached, startup_stops.lines_of)
    monkeypatch.setattr(startup_stops, "_mechanism", used)
    yield
    used.serve({})


def executed(path: Path) -> dict[str, Any]:
    """Run a file as a module of its name, compiled as this Python's way to stops has it; return its names."""
    source = path.read_bytes()
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    if sys.version_info >= (3, 12):
        code = compile(source, str(path), "exec", dont_inherit=True)
    else:
        from dbg_agent.breakpoints.at_import import compile_file

        code = compile_file(source, str(path), path.stem)
    exec(code, names)  # noqa: S102 - a program of a test
    return names


def line_of(module: ModuleType, text: str) -> int:
    """Return the number of the first line with this text."""
    assert module.__file__ is not None
    lines = Path(module.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def spec(module: ModuleType, text: str | int, condition: str = "", hits: str = "", log: str = "") -> BreakpointSpec:
    line = line_of(module, text) if isinstance(text, str) else text
    return BreakpointSpec(file=str(module.__file__), line=line, condition=condition, hits=hits, log=log)


def ask(
    driver: Driver | Viewer, *specs: BreakpointSpec, clear: Sequence[LineOfFile | BreakpointSpec] = ()
) -> tuple[BreakpointState, ...]:
    """Have the rank set and clear breakpoints; return its answer."""
    request = next(NUMBERS)
    lines = tuple(LineOfFile(file=one.file, line=one.line) for one in clear)
    change = BreakpointChanges(clear=lines, set=specs)
    driver.rank.from_broker.on_message(Ask(request=request, action=Action.BREAKPOINTS, inquiry=change, seconds=SECONDS))

    def answers() -> list[dict[str, object]]:
        return [one for one in driver.heard("answer") if one["request"] == request]

    driver.wait_for(lambda: bool(answers()), "the answer about breakpoints")
    (answer,) = answers()
    assert answer["kind"] == "value", answer
    return msgspec.convert(answer["rows"], tuple[BreakpointState, ...])


def stopped_at(driver: Driver) -> int:
    """Return the line of the current stop."""
    stop = driver.rank.rank_report().stop
    assert stop is not None
    return stop.where.line
