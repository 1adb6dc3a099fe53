"""A process finds an identity of its own in any environment and beside any framework."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.agent.launch.test_this_process import KNOWN_VARIABLES

PRINT_IDENTITY = (
    "import os, sys; from dbg_agent.launch.this_process import this_process; os.chdir('/'); i = this_process(); "
    "print(i.script, i.directory, i.launcher, i.rank, i.pid == os.getpid(), 'asyncio' in sys.modules)"
)


def ask_child(*arguments: str, directory: Path, **environ: str) -> list[str]:
    cleared = {name: value for name, value in os.environ.items() if name not in KNOWN_VARIABLES}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=directory, env=cleared | environ, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_this_process_finds_its_script_after_a_change_of_directory(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRINT_IDENTITY)

    assert ask_child("train.py", directory=tmp_path) == [str(tmp_path / "train.py"), "/", "none", "0", "True", "False"]


def test_this_process_reads_its_environment(tmp_path: Path) -> None:
    told = ask_child("-c", PRINT_IDENTITY, directory=tmp_path, RANK="1", WORLD_SIZE="2")

    assert told == ["-c", "/", "env", "1", "True", "False"]


def test_this_process_in_a_removed_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = tmp_path / "train.py"
    program.write_text(f"import os; os.rmdir({str(gone)!r})\n" + PRINT_IDENTITY.replace("os.chdir('/'); ", ""))

    assert ask_child(str(program), directory=gone) == [str(program), "none", "0", "True", "False"]


def test_this_process_names_the_module_it_runs(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(PRINT_IDENTITY)

    assert ask_child("-m", "fit", directory=tmp_path)[:2] == ["-m", "fit"]


def test_this_process_names_the_folder_it_runs(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(PRINT_IDENTITY.replace("os.chdir('/'); ", ""))

    assert ask_child("app", directory=tmp_path)[:2] == [str(tmp_path / "app"), str(tmp_path)]
