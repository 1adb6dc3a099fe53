"""Stops named from outside: the program is halted at its line, and is otherwise what it is without them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Approved
from tests.support.time_unit import seconds

PRINTER = """\
import dbg_agent.program.entry
def printer(frame, *_, **__):
    seen = sorted(set(frame.f_locals) & {"step", "x"})
    print("stopped", frame.f_code.co_name, frame.f_lineno, seen, flush=True)
dbg_agent.program.entry.stop_at = printer
"""
"""Has a program print where it would stop; other tests are about the stop itself."""

TRAIN = """\
from __future__ import annotations
import json, printer, helper, loop
from dbg_agent.breakpoints.startup_stops import STARTUP_STOPS
def train():
    for step in range(3):
        helper.double(step)

if __name__ == "__main__":
    train()
    print(json.dumps({one.stop.typed: one.counted for one in STARTUP_STOPS}))
    print("trained")
"""

HELPER = """\
def double(x):
    # a comment
    return 2 * x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"printer": PRINTER, "train": TRAIN, "helper": HELPER, "loop": ""}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(
    folder: Path, *command: str, at: str = "", inside: str = "", **environ: str
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
        timeout=seconds(60),
        check=False,
    )


def stops(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("trained\n")
    return re.findall("^stopped (.*)$", result.stdout, re.MULTILINE)


def hits(result: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Return how often the program was stopped, by the names of its stops."""
    assert stops(result)
    counted: dict[str, int] = json.loads(result.stdout.splitlines()[-2])
    return counted


# ------------------------------------------------------------------------------------------------- which code is meant


def test_a_module_stops_and_its_bytecode_cache_is_left_alone(folder: Path) -> None:
    def cached() -> dict[str, bytes]:
        return {path.name.partition(".")[0]: path.read_bytes() for path in folder.glob("__pycache__/*")}

    result = run(folder, at="helper.py:3")
    assert stops(result) == ["double 3 ['x']"] * 3
    assert not result.stderr
    # Before Python 3.12 code has calls for its stops.
    assert set(cached()) == ({"printer", "loop", "helper"} if sys.version_info >= (3, 12) else {"printer", "loop"})
    assert stops(run(folder)) == []
    before = cached()
    assert "helper" in before
    assert len(stops(run(folder, at="helper.py:3"))) == 3
    assert cached() == before
    assert stops(run(folder)) == []


# Each way to start the script with the names that it has, and with one that it has not.
@pytest.mark.parametrize(
    ("command", "names", "others"),
    [
        (["./train.py"], "train:train\n__main__:train", "rain:train"),
        (["-m", "dbg_agent", "train.py"], "train:train\n__main__:train", "other.train:train"),
        (["-m", "pkg.train"], "pkg.train:train", "other.train:train\nkg.train:train"),
    ],
)
def test_the_script_stops_at_its_breakpoints(folder: Path, command: list[str], names: str, others: str) -> None:
    place = folder / "pkg" if "pkg" in str(command) else folder
    if place != folder:
        place.mkdir()
        for path in folder.glob("*.py"):
            (place / path.name).write_text(path.read_text())
        # A file of that name in the working directory would be meant before one elsewhere.
        (folder / "train.py").unlink()
    at = [f"train.py:6, step == {number}" for number in range(2)]
    at += [f"{place}/train.py:6, step > 0", f"../{folder.name}/{place.relative_to(folder)}/train.py:6, step == 2"]
    found = hits(run(folder, *command, at="\n".join([*at, "rain.py:6"]), inside=f"{names}\n{others}"))
    assert {name: count for name, count in found.items() if count} == {
        **dict(zip(at, (1, 1, 2, 1), strict=True)),
        **dict.fromkeys(names.split("\n"), 1),
    }


def test_a_file_in_another_folder_matches_the_end_of_its_path(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    names = ["helper.py:3", f"{folder.name}/helper.py:3", "per.py:3"]
    assert list(hits(run(elsewhere, str(folder / "train.py"), at="\n".join(names))).values()) == [3, 3, 0]
    # A file of that name in the working directory is meant before one elsewhere.
    (elsewhere / "helper.py").write_text("")
    assert stops(run(elsewhere, str(folder / "train.py"), at="helper.py:3")) == []


def test_a_file_matches_the_name_of_its_symlink_and_its_own_name(folder: Path) -> None:
    (folder / "latest.py").symlink_to("train.py")
    names = ["latest.py:6", "train.py:6", f"{folder}/train.py:6"]
    assert set(hits(run(folder, "latest.py", at="\n".join(names))).values()) == {3}


RENUMBERED = """\
import os, printer
def train(step):
    return step
for step in range(4):
    train(step)
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(step), "4"
print("trained")
"""


def test_a_child_without_a_rank_uses_the_rank_that_its_program_sets(folder: Path) -> None:
    (folder / "child.py").write_text(RENUMBERED)
    claimed = {"DBG_AUTOSTART": "rank:1:none"}
    assert stops(run(folder, "child.py", at="child.py:3, rank == 1", **claimed)) == ["train 3 ['step']"]


# ---------------------------------------------------------------------------------------------------- what is reported

NEVER_CAME = "train.py:999\nhelper.py:3, x > 9\nmodel.py:1\nnonsense\nloop.py:1"


@pytest.mark.parametrize(
    ("at", "inside", "reason"),
    [
        ("helper.py:3, x.size > 0", "", ""),
        ("helper.py:2", "", ""),
        (NEVER_CAME, "helper:triple\nmodel:f\nhelper:double", ""),
        ("helper.py:3", "", "no broker answers"),
    ],
    ids=["a condition that raises", "a line without code", "what never came", "what was passed by"],
)
def test_stops_that_differ_from_the_request_are_reported(
    approved: Approved, folder: Path, at: str, inside: str, reason: str
) -> None:
    if reason:
        (folder / "printer.py").write_text(PRINTER.replace("flush=True)\n", f"flush=True)\n    return {reason!r}\n"))
    result = run(folder, at=at, inside=inside, RANK="0")
    assert stops(result) == ["double 3 ['x']"] * 3
    approved(result.stderr)


def test_one_rank_reports_for_all_ranks(folder: Path) -> None:
    job = {"WORLD_SIZE": "4"}
    assert run(folder, at="model.py:1", RANK="0", **job).stderr
    assert not run(folder, at="model.py:1", RANK="2", **job).stderr
    assert run(folder, at="model.py:1", RANK="2", DBG_RANKS="2,3", **job).stderr


LATE = """\
import dbg_agent.process.imports, printer
changed = []
dbg_agent.process.imports.when_loaded("helper", changed.append)
import helper
helper.double(1)
assert len(changed) == 1 and helper.__spec__.loader is helper.__loader__
print("trained")
"""


def test_a_module_that_the_agent_patches_can_have_stops(folder: Path) -> None:
    (folder / "script.py").write_text(LATE)
    assert stops(run(folder, "script.py", at="helper.py:3")) == ["double 3 ['x']"]


# ------------------------------------------------------------------------------------- the program is as without stops


SEES = """\
import json, sys, warnings, __main__
class Model: pass
def f(x: int): pass
print(json.dumps([__name__, __file__, sys.argv, sys.path[:2], __main__.Model is Model, Model.__module__,
    __spec__ is None, __package__, type(__loader__).__name__, str(f.__annotations__), sorted(dir())]))
warnings.warn("here")
"""


@pytest.mark.parametrize("last_line", ["sys.exit('no')", "1 / 0", "def"])
def test_a_script_runs_and_ends_with_stops_as_without(folder: Path, last_line: str) -> None:
    (folder / "script.py").write_text(f"import atexit\natexit.register(print, 'end')\n{SEES}{last_line}\n")
    alone, ours = run(folder, "script.py", "-m", "x"), run(folder, "script.py", "-m", "x", at="script.py:2, False")
    assert (ours.returncode, ours.stdout) == (alone.returncode, alone.stdout)
    assert alone.returncode != 0
    assert ours.stderr.splitlines()[: alone.stderr.count("\n")] == alone.stderr.splitlines()


def test_a_script_is_interrupted_with_stops_as_without(folder: Path) -> None:
    (folder / "script.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('late')\n")
    ours = run(folder, "script.py", at="script.py:3")
    assert (ours.returncode, ours.stderr.count("KeyboardInterrupt")) == (-signal.SIGINT, 1)


CHILDREN = """\
import multiprocessing, subprocess, sys, printer
def by_fork():
    return 1
def by_spawn():
    return 2
def by_server():
    return 3
def by_none(number):
    return 4
if __name__ == "__main__":
    for method, work, given in (
        ("fork", by_fork, ()), ("spawn", by_spawn, ()), ("forkserver", by_server, ()), ("spawn", by_none, (4,))
    ):
        child = multiprocessing.get_context(method).Process(target=work, args=given)
        child.start()
        child.join()
    subprocess.run([sys.executable, "late.py"])
    print("trained")
"""


def test_children_of_every_start_method_stop_and_a_rank_reports_only_its_own_stops(
    approved: Approved, folder: Path
) -> None:
    (folder / "script.py").write_text(CHILDREN)
    (folder / "late.py").write_text("import printer\nx = 1\n")
    at = "script.py:3\nscript.py:5\nscript.py:7\nscript.py:9, number == 5\nlate.py:2"
    result = run(folder, "-W", "ignore::DeprecationWarning", "script.py", at=at)
    functions = ["by_fork 3", "by_spawn 5", "by_server 7", "<module> 2"]
    assert stops(result) == [f"{function} []" for function in functions]
    approved(result.stderr)


ENDING = """\
import sys, threading, warnings

warnings.simplefilter("ignore")  # a fork beside threads
from pathlib import Path

from dbg_wire.records.inspection import BreakpointSpec
from tests.unit.agent.breakpoints.asking import ask
from tests.unit.agent.pdb_driver import Driver


class Kept:
    def __del__(self):
        self.gone = True  # in a finalizer


import __main__
__main__.kept = Kept()
sys.kept = Kept()
line = Path(__file__).read_text().splitlines().index("        self.gone = True  # in a finalizer") + 1
(state,) = ask(Driver(), BreakpointSpec(file=__file__, line=line, condition="1 / 0 or True", hits="> 100"))
assert state.is_set, state
pid = __import__("os").fork()
if pid:
    assert __import__("os").waitpid(pid, 0)[1] == 0
Kept()
print("ends", flush=True)
"""


def test_a_program_ends_as_without_breakpoints(tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(ENDING)
    path = os.pathsep.join(part for part in sys.path if part)
    environ = {**os.environ, "PYTHONPATH": f"{Path.cwd()}{os.pathsep}{path}"}
    done = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, timeout=seconds(20), check=False
    )
    assert (done.returncode, done.stdout) == (0, "ends\nends\n"), done.stderr
    others = [line for line in done.stderr.splitlines() if "the condition raised ZeroDivisionError" not in line]
    assert others == []
