"""The end of a program with breakpoints: nothing of ours is printed or raised while the interpreter shuts down."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_agent.breakpoints import reached
from tests.conftest import Approved
from tests.support.approved import as_text
from tests.support.time_unit import seconds

PROGRAM = """\
import sys, threading, warnings

warnings.simplefilter("ignore")  # a fork beside threads
from pathlib import Path

from dbg_wire.records.breakpoints import BreakpointWish
from tests.unit.agent.breakpoints.asking import ask
from tests.unit.agent.pdb_driver import Driver


class Kept:
    def __del__(self):
        self.gone = True  # in a finalizer


import __main__
__main__.kept = Kept()
sys.kept = Kept()
line = Path(__file__).read_text().splitlines().index("        self.gone = True  # in a finalizer") + 1
(state,) = ask(Driver(), BreakpointWish(file=__file__, line=line, condition="1 / 0 or True", hits="> 100"))
assert state.is_set, state
pid = __import__("os").fork()
if pid:
    assert __import__("os").waitpid(pid, 0)[1] == 0
Kept()
print("ends", flush=True)
"""


def test_a_program_ends_as_without_breakpoints(tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(PROGRAM)
    path = os.pathsep.join(part for part in sys.path if part)
    environ = {**os.environ, "PYTHONPATH": f"{Path.cwd()}{os.pathsep}{path}"}
    done = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, timeout=seconds(20), check=False
    )
    assert (done.returncode, done.stdout) == (0, "ends\nends\n"), done.stderr
    told = [line for line in done.stderr.splitlines() if "the condition raised ZeroDivisionError" not in line]
    assert told == []


TRAIN = """\
from __future__ import annotations
import dbg_agent.program.entry, helper
def told(frame, arguments, unexpected, before_line, asked_for):
    print("stopped", frame.f_code.co_name, frame.f_lineno, sorted(set(frame.f_locals) & {"step", "x"}))
dbg_agent.program.entry.stop_at = told
import loop
def train():
    for step in range(3):
        helper.double(step)

if __name__ == "__main__":
    train()
    print("trained")
"""
"""Prints where it would stop; other tests are about the stop itself."""

HELPER = """\
def double(x):
    # a comment
    return 2 * x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "loop.py").write_text("")
    return tmp_path


def run(
    folder: Path,
    *command: str,
    at: str = "",
    inside: str = "",
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run Python with these stops, and without a broker."""
    variables = {"DBG_AUTOSTART": str(os.getpid()), "DBG_GUARD": "0", "DBG_CONNECT_TIMEOUT": "60", **environ}
    variables |= {"DBG_STOP_AT": at, "DBG_STOP_IN": inside, "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.run(
        [sys.executable, *(command or ("train.py",))],
        cwd=folder,
        env={**os.environ, "DBG_HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stops(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("trained\n")
    return re.findall("^stopped (.*)$", result.stdout, re.MULTILINE)


def test_a_module_stops_and_its_cache_is_left_alone(folder: Path) -> None:
    assert stops(run(folder)) == []
    cached = {path: path.read_bytes() for path in folder.glob("__pycache__/*")}
    assert cached
    result = run(folder, at="helper.py:3")
    assert stops(result) == ["double 3 ['x']"] * 3
    assert not result.stderr
    assert {path: path.read_bytes() for path in folder.glob("__pycache__/*")} == cached
    assert stops(run(folder)) == []


def test_no_cache_is_made_of_a_module_with_stops(folder: Path) -> None:
    assert len(stops(run(folder, at="helper.py:3"))) == 3
    assert [path.name.partition(".")[0] for path in folder.glob("__pycache__/*")] == ["loop"]


# Each way to start the script with some of the names that it has: all with all would start four interpreters for one.
@pytest.mark.parametrize(
    ("command", "lines", "functions"),
    [
        (["train.py"], ["train.py:9", "train:9", "{folder}/train.py:9", "../{name}/train.py:9"], ["__main__:train"]),
        (["./train.py"], ["train.py:9", "{folder}/train.py:9"], ["train:train"]),
        (["-m", "train"], ["train.py:9", "train:9"], ["train:train", "__main__:train"]),
        (["-m", "dbg_agent", "train.py"], ["train.py:9", "../{name}/train.py:9"], ["train:train", "__main__:train"]),
    ],
)
def test_the_script_itself_stops(folder: Path, command: list[str], lines: list[str], functions: list[str]) -> None:
    for line in lines:
        name = line.format(folder=folder, name=folder.name)
        assert stops(run(folder, *command, at=name)) == ["train 9 ['step']"] * 3
    for name in functions:
        assert stops(run(folder, *command, inside=name)) == ["train 8 []"]


def test_a_file_elsewhere_is_meant_by_the_end_of_its_path(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = str(folder / "train.py")
    assert len(stops(run(elsewhere, script, at="helper.py:3"))) == 3
    assert len(stops(run(elsewhere, script, at=f"{folder.name}/helper.py:3"))) == 3
    assert stops(run(elsewhere, script, at="per.py:3")) == []
    # A file of that name in the working directory is meant before one elsewhere.
    (elsewhere / "helper.py").write_text("")
    assert stops(run(elsewhere, script, at="helper.py:3")) == []


def test_a_condition_is_evaluated_in_the_frame(folder: Path) -> None:
    assert len(stops(run(folder, at="helper.py:3, x == 1"))) == 1
    assert len(stops(run(folder, at="helper.py:3, any(x == y for y in (0, 2))"))) == 2
    assert len(stops(run(folder, at="helper.py:3, rank == 0"))) == 3
    other = run(folder, at="helper.py:3, rank == 0", RANK="1", WORLD_SIZE="2")
    assert stops(other) == []


RENUMBERED = """\
import os, dbg_agent.program.entry
def told(frame, arguments, unexpected, before_line, asked_for):
    print("stopped", frame.f_code.co_name, frame.f_lineno, frame.f_locals["step"])
dbg_agent.program.entry.stop_at = told
def train(step):
    return step
for step in range(4):
    train(step)
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(step), "4"
print("trained")
"""


def test_a_child_without_a_rank_knows_the_number_that_its_program_has_given_it(folder: Path) -> None:
    (folder / "child.py").write_text(RENUMBERED)
    claimed = {"DBG_AUTOSTART": "rank:1:none"}
    assert stops(run(folder, "child.py", at="child.py:6, rank == 1", **claimed)) == ["train 6 2"]


def test_a_condition_that_raises_stops_and_is_told_once(approved: Approved, folder: Path) -> None:
    result = run(folder, at="helper.py:3, x.size > 0")
    assert len(stops(result)) == 3
    approved(result.stderr)


def test_a_line_without_code_moves_and_says_so(approved: Approved, folder: Path) -> None:
    result = run(folder, at="helper.py:2")
    assert stops(result) == ["double 3 ['x']"] * 3
    approved(result.stderr)


def test_what_never_came_is_said_at_the_end(approved: Approved, folder: Path) -> None:
    (folder / "broken.py").write_text("def f(:\n")
    at = "train.py:999\nhelper.py:3, x > 9\nmodel.py:1\nnonsense\nloop.py:1"
    result = run(folder, at=at, inside="helper:triple\nmodel:f\nhelper:double")
    assert stops(result) == ["double 3 ['x']"] * 3
    approved(as_text(result.stderr.splitlines()))


def test_one_rank_speaks_for_all(folder: Path) -> None:
    job = {"WORLD_SIZE": "4"}
    assert "was never reached" in run(folder, at="model.py:1", RANK="0", **job).stderr
    assert "was never reached" not in run(folder, at="model.py:1", RANK="2", **job).stderr
    assert "was never reached" in run(folder, at="model.py:1", RANK="2", DBG_RANKS="2,3", **job).stderr


SEES = """\
import json, sys, warnings, __main__
class Model: pass
def f(x: int): pass
print(json.dumps([__name__, __file__, sys.argv, sys.path[:2], __main__.Model is Model, Model.__module__,
    __spec__ is None, __package__, type(__loader__).__name__, str(f.__annotations__), sorted(dir())]))
warnings.warn("here")
"""


SAFE = [["-P", "script.py"]] if sys.version_info >= (3, 11) else []


@pytest.mark.parametrize("command", [["script.py", "-m", "x"], ["folder/../script.py"], *SAFE])
def test_a_script_with_stops_sees_what_it_would_see_without(
    approved: Approved, folder: Path, command: list[str]
) -> None:
    (folder / "script.py").write_text(SEES)
    (folder / "folder").mkdir()
    alone, ours = run(folder, *command), run(folder, *command, at="script.py:6, False")
    assert alone.stdout == ours.stdout
    assert alone.returncode == ours.returncode == 0
    assert "script.py:6: UserWarning" in ours.stderr
    approved(ours.stderr)


@pytest.mark.parametrize(
    ("last_line", "status"), [("sys.exit(3)", 3), ("sys.exit('no')", 1), ("sys.exit()", 0), ("1 / 0", 1), ("def", 1)]
)
def test_a_script_with_stops_ends_as_it_would_without(folder: Path, last_line: str, status: int) -> None:
    (folder / "script.py").write_text(f"import sys, atexit\natexit.register(print, 'end')\n{last_line}\n")
    alone, ours = run(folder, "script.py"), run(folder, "script.py", at="script.py:2, False")
    assert (alone.returncode, ours.returncode) == (status, status)
    assert alone.stdout == ours.stdout
    assert ours.stderr.splitlines()[: alone.stderr.count("\n")] == alone.stderr.splitlines()


SPAWNS = """\
import multiprocessing, dbg_agent.program.entry
def told(frame, arguments, unexpected, before_line, asked_for):
    print("stopped", frame.f_code.co_name, frame.f_lineno, [], flush=True)
dbg_agent.program.entry.stop_at = told
def work():
    return 1
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        child = multiprocessing.get_context(method).Process(target=work)
        child.start()
        child.join()
    print("trained")
"""


def test_children_stop_too_however_they_are_made(folder: Path) -> None:
    (folder / "script.py").write_text(SPAWNS)
    result = run(folder, "-W", "ignore::DeprecationWarning", "script.py", at="script.py:6")
    assert stops(result) == ["work 6 []"] * 3


OWN_LOADER = """\
import importlib.machinery, importlib.util, sys
class Own(importlib.machinery.SourceFileLoader): pass
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "helper":
            return importlib.util.spec_from_file_location(name, "helper.py", loader=Own(name, "helper.py"))
index = sys.meta_path.index(importlib.machinery.PathFinder)
sys.meta_path.insert({index}, Finder())
import helper
print("trained")
"""


@pytest.mark.parametrize("index", ["0", "index"])
def test_a_module_that_somebody_else_compiles_is_left_to_them(approved: Approved, folder: Path, index: str) -> None:
    (folder / "script.py").write_text(OWN_LOADER.replace("{index}", index))
    result = run(folder, "script.py", at="helper.py:3")
    assert stops(result) == []
    assert "helper.py:3 was never reached: " in result.stderr
    approved(result.stderr)


LATE = """\
import dbg_agent.process.imports, dbg_agent.program.entry, sys
changed = []
dbg_agent.process.imports.when_loaded("helper", changed.append)
def told(frame, arguments, unexpected, before_line, asked_for):
    print("stopped", frame.f_code.co_name, frame.f_lineno, len(changed))
dbg_agent.program.entry.stop_at = told
import helper
helper.double(1)
print(helper.__spec__.loader is helper.__loader__)
print("trained")
"""


def test_a_module_that_we_change_when_it_is_loaded_can_have_stops(folder: Path) -> None:
    (folder / "script.py").write_text(LATE)
    result = run(folder, "script.py", at="helper.py:3")
    assert stops(result) == ["double 3 1"]
    assert "True" in result.stdout


def test_a_script_with_stops_is_interrupted_as_it_would_be_without(folder: Path) -> None:
    (folder / "script.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('late')\n")
    alone, ours = run(folder, "script.py"), run(folder, "script.py", at="script.py:3")
    assert alone.returncode == ours.returncode == -signal.SIGINT
    assert ours.stderr.count("KeyboardInterrupt") == 1
    assert "rank 0 never came there" in ours.stderr


def test_a_file_is_known_by_the_name_of_a_link_and_by_its_own(folder: Path) -> None:
    (folder / "latest.py").symlink_to("train.py")
    for name in ("latest.py:9", "train.py:9", f"{folder}/train.py:9"):
        assert len(stops(run(folder, "latest.py", at=name))) == 3


@pytest.mark.parametrize("command", [["pkg/train.py"], ["-m", "pkg.train"], ["-m", "dbg_agent", "pkg/train.py"]])
def test_a_function_of_a_module_stops_also_where_its_file_is_the_script(folder: Path, command: list[str]) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "train.py").write_text(TRAIN)
    for name in ("helper", "loop"):
        (folder / "pkg" / f"{name}.py").write_text((folder / f"{name}.py").read_text())
    result = run(folder, *command, inside="pkg.train:train\nother.train:train\nkg.train:train")
    assert stops(result) == ["train 8 []"]
    assert "pkg.train:train was never" not in result.stderr
    assert "other.train:train was never reached" in result.stderr


IN_CHILDREN = """\
import multiprocessing, subprocess, sys, dbg_agent.program.entry
dbg_agent.program.entry.stop_at = lambda frame, arguments, unexpected, before_line: None
def by_fork():
    return 1
def by_spawn():
    return 2
def by_none(number):
    return 3
if __name__ == "__main__":
    for method, work, given in (("fork", by_fork, ()), ("spawn", by_spawn, ()), ("spawn", by_none, (4,))):
        child = multiprocessing.get_context(method).Process(target=work, args=given)
        child.start()
        child.join()
    subprocess.run([sys.executable, "helper.py"])
    print("trained")
"""


def test_what_a_child_has_reached_is_not_said_to_have_never_been(approved: Approved, folder: Path) -> None:
    (folder / "script.py").write_text(IN_CHILDREN)
    (folder / "helper.py").write_text(
        "import dbg_agent.program.entry\ndbg_agent.program.entry.stop_at = print\nx = 1\n"
    )
    at = "script.py:4\nscript.py:6\nscript.py:8, number == 5\nhelper.py:3"
    result = run(folder, "-W", "ignore::DeprecationWarning", "script.py", at=at)
    assert stops(result) == []
    told = [line for line in result.stderr.splitlines() if "never" in line]
    approved(as_text(told))


def test_a_stop_that_was_passed_by_is_told_with_its_reason(approved: Approved, folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN.replace('"x"}))\n', '"x"}))\n    return "no broker answers"\n', 1))
    result = run(folder, at="helper.py:3", RANK="0")
    assert len(stops(result)) == 3
    approved(result.stderr)


def test_what_a_child_has_told_stays_whatever_another_child_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reached.VARIABLE, raising=False)
    environ: dict[str, str] = {}
    reached.share(environ)
    where = environ[reached.VARIABLE]
    reached.note(where, 1, reached.HELD)
    reached.note(where, 1, reached.REACHED)
    assert [reached.noted(where, number) for number in range(3)] == [0, reached.HELD, 0]
    os.close(int(where.split(":")[1]))


TELLS = """\
import sys
import dbg_agent.program.entry
from dbg_agent.breakpoints.points import stop_states

def told():
    return [[one.stop, one.line, one.armed, one.hits, one.problem] for one in stop_states()]

dbg_agent.program.entry.stop_at = lambda *_, **__: None

def train(steps):
    for step in range(steps):
        # a comment
        x = step

before = told()
train(3)
import helper
helper.double(1)
print({"before": before, "after": told()})
"""

DOUBLES = """\
def double(x):
    return 2 * x
"""


def test_it_is_armed_once_its_module_is_loaded_and_its_hits_are_counted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TELLS)
    (tmp_path / "helper.py").write_text(DOUBLES)
    environ = {
        **os.environ,
        "DBG_AUTOSTART": str(os.getpid()),
        "DBG_GUARD": "0",
        "DBG_CONNECT_TIMEOUT": "60",
        "DBG_HOME": str(tmp_path),
        "DBG_STOP_AT": "train.py:12, step > 0\nhelper.py:2\ngone.py:1",
        "DBG_STOP_IN": "helper:double\nhelper:triple",
    }
    result = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    told = eval(result.stdout)  # noqa: S307 - printed by the program above
    assert told["before"][0] == ["train.py:12, step > 0", 13, True, 0, ""]
    assert told["before"][1] == ["helper.py:2", None, False, 0, ""]
    assert told["after"][:4] == [
        ["train.py:12, step > 0", 13, True, 2, ""],
        ["helper.py:2", 2, True, 1, ""],
        ["gone.py:1", None, False, 0, ""],
        ["helper:double", None, True, 1, ""],
    ]
    stop, line, armed, hits, problem = told["after"][4]
    assert (stop, line, armed, hits) == ("helper:triple", None, False, 0)
    assert problem.startswith(f"{tmp_path}/helper.py: ")
