"""``python -m dbg_agent``: a program runs as it would by itself; importing the public names costs next to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Approved

HEAVY = ("websockets", "pudb", "asyncio", "ssl", "socket", "json", "urwid", "dataclasses", "typing", "threading", "pdb")


def run(*arguments: str, directory: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, where no broker is and none is waited for."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**os.environ, "DBG_HOME": str(directory), "DBG_CONNECT_TIMEOUT": "0.1", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(
        "import json, sys, __main__\n"
        "class Model: pass\n"
        "print(json.dumps([__name__, __file__, sys.argv, sys.path[0], __main__.Model is Model,"
        " Model.__module__, __spec__ is None, sorted(n for n in dir() if not n.startswith('__'))]))\n"
    )
    return path


def test_a_script_sees_what_it_would_see_by_itself(script: Path, tmp_path: Path) -> None:
    alone = run("train.py", "--lr", "-m", directory=tmp_path)
    ours = run("-m", "dbg_agent", "train.py", "--lr", "-m", directory=tmp_path)
    assert ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout) == json.loads(alone.stdout)


def test_a_module_sees_what_it_would_see_by_itself(script: Path, tmp_path: Path) -> None:
    text = script.read_text().replace(", __spec__ is None", "").replace("__main__.Model is Model", "True")
    script.with_name("recipe.py").write_text(text)
    alone = run("-m", "recipe", "--lr", directory=tmp_path)
    ours = run("-m", "dbg_agent", "-m", "recipe", "--lr", directory=tmp_path)
    assert ours.returncode == 0, ours.stderr
    assert json.loads(ours.stdout) == json.loads(alone.stdout)


@pytest.mark.parametrize(
    ("last_line", "status"), [("sys.exit(3)", 3), ("sys.exit('no')", 1), ("sys.exit()", 0), ("1 / 0", 1), ("pass", 0)]
)
def test_the_exit_status_is_the_programs(tmp_path: Path, last_line: str, status: int) -> None:
    (tmp_path / "train.py").write_text(f"import sys\n{last_line}\n")
    assert run("-m", "dbg_agent", "train.py", directory=tmp_path).returncode == status


def test_a_traceback_shows_the_program_and_not_us(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def step():\n    1 / 0\nstep()\n")
    alone = run("train.py", directory=tmp_path)
    ours = run("-m", "dbg_agent", "train.py", directory=tmp_path)
    assert "ZeroDivisionError" in ours.stderr
    # Where the program lives for 0.1 s, the rank says that it has found no broker.
    told = [line for line in ours.stderr.splitlines() if not line.startswith("dbg-agent: ")]
    assert told == alone.stderr.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-m"],
        ["nowhere.py"],
        ["--nonsense", "x.py"],
        ["--broker"],
    ],
)
def test_a_bad_command_line_is_one_sentence(approved: Approved, tmp_path: Path, arguments: list[str]) -> None:
    ended = run("-m", "dbg_agent", *arguments, directory=tmp_path)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    approved(ended.stderr)


def test_importing_the_public_names_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import dbg_agent; print(*sorted(set(sys.modules) - before))"
    ended = run("-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}", directory=tmp_path)
    loaded = ended.stdout.split()
    assert "dbg_agent" in loaded, ended.stderr
    assert [name for name in loaded if name.partition(".")[0] in HEAVY] == []
    assert len(loaded) <= 2


def test_breakpoint_goes_through_us_while_installed(approved: Approved, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, dbg_agent\nbefore = sys.breakpointhook\ndbg_agent.install()\n"
        "assert sys.breakpointhook is dbg_agent.set_trace\nbreakpoint()\n"
        "dbg_agent.uninstall()\nassert sys.breakpointhook is before\n"
        "dbg_agent.install(breakpoint=False)\nassert sys.breakpointhook is before\n"
    )
    ended = run("train.py", directory=tmp_path, DBG_CONNECT_TIMEOUT="1")
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    approved(ended.stderr)


def test_a_stop_within_the_set_up_of_another_is_passed_by(approved: Approved, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import dbg_agent\n"
        "from dbg_agent.program import own_rank\n"
        "make = own_rank.Rank\n"
        "def interrupted(*arguments):\n"
        "    dbg_agent.set_trace()  # as by a signal handler\n"
        "    return make(*arguments)\n"
        "own_rank.Rank = interrupted\n"
        "dbg_agent.set_trace()\n"
        "print('went on')\n"
    )
    ended = run("train.py", directory=tmp_path, DBG_CONNECT_TIMEOUT="1")
    assert (ended.returncode, ended.stdout) == (0, "went on\n")
    inner, outer = ended.stderr.splitlines()
    approved(inner)
    approved(outer, "2")


def test_help_is_what_was_asked_for_and_no_error(tmp_path: Path) -> None:
    done = run("-m", "dbg_agent", "--help", directory=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m dbg_agent ")
