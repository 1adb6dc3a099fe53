"""An IDE looks into stopped ranks: values in levels, assignments that the program sees, completions, source."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_wire.messages import Action
from dbg_wire.records.inspection import Inspection, InspectionKind, Parts, Scope, SourceText
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.inspecting import Look, looking
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach_command, texts
from tests.support.stopped_rank import start_stopped

PROGRAM = """\
import dataclasses, threading
import dbg_agent

LIMIT = 5

@dataclasses.dataclass
class Config:
    width: int
    names: list

class Layer:
    depth = 3
    __slots__ = ("weight", "bias", "__dict__")
    def __init__(self):
        self.weight = [0.5, 1.5]
        self.extra = "extra"
    @property
    def norm(self):
        print("computed")
        return sum(self.weight)

def outer():
    kept = "of outer"
    def train(step):
        config = Config(4, ["a", "b"])
        layer = Layer()
        numbers = list(range(1000))
        kept
        dbg_agent.set_trace()
        print("step", step, "width", config.width, "limit", LIMIT, kept, flush=True)
        dbg_agent.set_trace()
        return step
    return train

print(outer()(7), flush=True)
"""
STOP = next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if "set_trace" in line)


@pytest.fixture
def rank(processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    return start_stopped(processes, home, PROGRAM)


@pytest.fixture
def look(rank: Child) -> Iterator[Look]:
    with looking() as look:
        yield look


def test_variables_are_listed_in_levels_and_text_is_evaluated_and_completed(look: Look, rank: Child) -> None:
    scope = look.parts()
    assert [*scope] == ["step", "config", "layer", "numbers", "kept"]
    assert (scope["step"].text, scope["step"].type, scope["step"].handle) == ("7", "int", 0)
    assert [*look.parts(scope["numbers"], start=500, count=3, parts=Parts.INDEXED)] == ["500", "501", "502"]
    layer = look.parts(scope["layer"])
    assert [*layer] == ["extra", "weight"]
    assert "`absent`" in look.refusal(Inspection(sight=InspectionKind.ASSIGN, name="absent", text="3"))
    assert "9999" in look.refusal(Inspection(sight=InspectionKind.PARTS, handle=9999))
    assert look.parts(scope=Scope.GLOBALS)["LIMIT"].expression == "LIMIT"
    assert look.parts(frame="<module>")["LIMIT"].text == "5"
    assert look.value("layer.norm").text == "computed\n2.0"
    assert look.refusal(Inspection(sight=InspectionKind.VALUE, text="exit()")) == "SystemExit: None"
    ran = look.value("for n in range(2):\n    print(n)\nstep = n + 40", runs=True)
    assert (ran.text, ran.handle) == ("0\n1", 0)
    look.go_on(Action.COMMAND, "n")
    assert look.refusal(Inspection(sight=InspectionKind.PARTS, handle=scope["config"].handle))
    look.go_on()
    rank.wait_for_output("step 41 width 4")


def test_an_assignment_in_an_open_pdb_is_kept_when_others_inspect(
    look: Look, rank: Child, home: Path, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(attach_command("0", "--engine", "pdb"), rows=30, cols=120)
    terminal.wait_for("(Pdb)")
    terminal.send(b"!step = 100\r")
    terminal.send(b"p 'it is', step\r")
    terminal.wait_for("'it is', 100")
    assert texts(ask(home, "eval", "0", "step")) == {"0": "100"}
    assert texts(ask(home, "command", "0", "p step")) == {"0": "100"}
    assert (look.parts()["step"].text, look.value("step").text) == ("100", "100")
    assert look.assign("kept", "'changed'").text == "'changed'"
    assert look.value("LIMIT = step", runs=True).text == ""
    terminal.send(b"p 'now', step, kept\r")
    terminal.wait_for("'now', 100, 'changed'")
    terminal.send(b"c\r")
    rank.wait_for_output("step 100 width 4 limit 5 changed")


def test_only_files_that_the_rank_has_loaded_are_shown(look: Look, home: Path) -> None:
    script = home / "rank_script.py"

    def source(path: str, start: int = 0, count: int = 0) -> SourceText:
        found = look.look(Inspection(sight=InspectionKind.SOURCE, text=path, start=start, count=count)).sources
        assert [one.path for one in found] == [path] * len(found)
        return found[0]

    assert source(str(script)).lines == PROGRAM.rstrip("\n")
    part = source(str(script), STOP - 1, 1)
    assert (part.start, part.total, part.lines.strip()) == (STOP - 1, PROGRAM.count("\n"), "dbg_agent.set_trace()")
    large = look.look(Inspection(sight=InspectionKind.SOURCE, text=threading.__file__)).sources
    lines = "\n".join(one.lines for one in large).split("\n")
    assert lines == Path(threading.__file__).read_text().split("\n")[: len(lines)]
    assert len(large) > 1
    for path in ("/etc/hostname", "../secret"):
        assert path in look.refusal(Inspection(sight=InspectionKind.SOURCE, text=path))
    script.write_text(PROGRAM.replace("LIMIT = 5", "LIMIT = 6"))
    assert str(script) in look.refusal(Inspection(sight=InspectionKind.SOURCE, text=str(script)))


CRASHES = """\
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)

class BadBatch(ValueError):
    pass

def step(batch):
    weights = [0.5, batch]
    try:
        {}["no"]
    except KeyError as error:
        dbg_agent.set_trace()
        raise BadBatch(f"batch {batch}") from error

step(7)
"""


def test_the_exception_is_reported_with_its_traceback(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    rank = start_stopped(processes, home, CRASHES, {"CI": "", "DBG_LEASE": "600"})
    with looking() as look:
        handled = look.look(Inspection(sight=InspectionKind.EXCEPTION)).exception
        assert handled is not None
        assert (handled.type, handled.text, handled.is_uncaught) == ("KeyError", "'no'", False)
        look.go_on()
        crash = look.look(Inspection(sight=InspectionKind.EXCEPTION)).exception
        assert crash is not None
        assert (crash.type, crash.text, crash.is_uncaught) == ("__main__.BadBatch", "batch 7", True)
        assert crash.traceback.startswith("Traceback (most recent call last):")
        assert "KeyError: 'no'" in crash.traceback
        assert crash.traceback.endswith("BadBatch: batch 7\n")
        assert "dbg_agent/" not in crash.traceback
        assert look.value("weights").text == "[0.5, 7]"
        assert look.assign("batch", "9").text == "9"
        assert look.parts()["batch"].text == "9"
        look.ask(Action.CONTINUE, "")
        assert rank.wait() == 1
