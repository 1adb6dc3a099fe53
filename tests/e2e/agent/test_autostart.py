"""Which process of a job becomes a rank without a change of code, and what the line in site-packages costs the rest."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dbg_agent.autostart import Program, part_of
from dbg_agent.launch.claim import NO_PLACE, JobPart, parent_of
from dbg_agent.launch.this_process import started_module

LINE = Path(__file__).parents[3] / "agent/dbg_broker_autostart.pth"
PYTHON = "/venv/bin/python"
TRAIN = ["train.py", "--lr", "1"]
SLURM = "slurm/4711.0/3"
PARENT, PID = 200, 300

SPEAKS = """\
import json, sys
own_rank = sys.modules.get("dbg_agent.program.own_rank")
print(json.dumps({"rank": own_rank is not None and own_rank.current() is not None, "pid": __import__("os").getpid()}))
"""
"""Says whether the process is a rank."""


def program(*argv: str) -> Program:
    """Return the program of a command line, as the interpreter shows it while it starts."""
    if argv[:1] == ("-m",):
        return Program(["-m", *argv[2:]], [PYTHON, *argv])
    if argv[:1] == ("-c",):
        return Program(["-c", *argv[2:]], [PYTHON, *argv])
    return Program(list(argv), [PYTHON, *argv])


def part(value: str, place: str, *argv: str, environ: Mapping[str, str] | None = None) -> JobPart:
    return part_of(value, place, program(*argv), pid=PID, parent=PARENT, environ=environ or {})


# A program, the value of DBG_AUTOSTART, the place that a launcher gives, and what the program is to the job.
PARTS: list[tuple[list[str], Sequence[str], Sequence[str], JobPart]] = [
    # The outermost program is a rank wherever a launcher has put it.
    (TRAIN, ["100", "1", "yes"], [NO_PLACE, SLURM], JobPart.RANK),
    (["/venv/bin/fairseq2", "lm"], ["100"], [NO_PLACE, SLURM], JobPart.RANK),
    (["-m", "recipe.train"], ["100"], [NO_PLACE, SLURM], JobPart.RANK),
    # A launcher is none wherever it is.
    *(
        (argv, ["100", f"launcher:{PARENT}:{SLURM}", "rank:7:none"], [NO_PLACE, SLURM], JobPart.LAUNCHER)
        for argv in (
            ["/venv/bin/torchrun", "train.py"],
            ["-m", "torch.distributed.run", "train.py"],
            ["-m", "accelerate.commands.launch", "train.py"],
            ["/venv/bin/deepspeed", "train.py"],
        )
    ),
    # A tool is none, even as the outermost.
    *(
        (argv, [str(PARENT)], [NO_PLACE], JobPart.HELPER)
        for argv in (
            ["/venv/bin/pip3.11", "list"],
            ["-m", "pip", "list"],
            ["-m", "ensurepip"],
            ["/venv/bin/pre-commit", "run"],
            ["/venv/bin/dbg-attach", "0"],
            ["/venv/bin/dbg-broker", "run"],
        )
    ),
    # A line of code is a rank only if it is what was asked for.
    *((argv, [str(PARENT)], [NO_PLACE], JobPart.RANK) for argv in (["-c", "pass"], ["-"], [""])),
    *((argv, ["100"], [NO_PLACE, SLURM], JobPart.HELPER) for argv in (["-c", "pass"], ["-"], [""])),
    # What a rank starts is no rank unless a launcher gives it a place.
    (TRAIN, [f"rank:{PARENT}:{NO_PLACE}"], [NO_PLACE], JobPart.HELPER),
    (TRAIN, [f"rank:{PARENT}:{SLURM}"], [SLURM, NO_PLACE], JobPart.HELPER),
    (TRAIN, [f"rank:{PARENT}:{NO_PLACE}", f"rank:{PARENT}:{SLURM}"], ["openmpi/x/0"], JobPart.RANK),
    (["-c", "pass"], [f"rank:{PARENT}:{NO_PLACE}"], [NO_PLACE, "openmpi/x/0"], JobPart.HELPER),
    # A program that replaces the rank in its process is the rank.
    (TRAIN, [f"rank:{PID}:{SLURM}"], [SLURM], JobPart.RANK),
    # A worker of Ray is one once an actor in it has its number.
    *(
        (
            [f"/venv/ray/_private/workers/{name}.py"],
            ["100", f"rank:7:{NO_PLACE}"],
            [NO_PLACE, "ray/x/0"],
            JobPart.HELPER,
        )
        for name in ("setup_worker", "default_worker")
    ),
    # A launcher's own place goes to a script that it starts, and to no helper.
    (TRAIN, [f"launcher:{PARENT}:{SLURM}"], [SLURM], JobPart.RANK),
    (TRAIN, [f"launcher:{PARENT + 1}:{SLURM}"], [SLURM], JobPart.HELPER),
    (["-c", "pass"], [f"launcher:{PARENT}:{SLURM}"], [SLURM], JobPart.HELPER),
    (TRAIN, [f"launcher:{PARENT + 1}:{SLURM}"], ["torchrun/x/0"], JobPart.RANK),
]


@pytest.mark.parametrize(("argv", "values", "places", "expected"), PARTS)
def test_each_program_has_its_part_in_the_job(
    argv: list[str], values: Sequence[str], places: Sequence[str], expected: JobPart
) -> None:
    for value, place in itertools.product(values, places):
        assert part(value, place, *argv) is expected, (value, place)


def test_the_scheduler_of_mindspore_is_not_a_rank() -> None:
    assert part("100", NO_PLACE, *TRAIN, environ={"MS_ROLE": "MS_SCHED"}) is JobPart.LAUNCHER


FIRST = {"LOCAL_RANK": "0", "NODE_RANK": "0", "WORLD_SIZE": "2"}


def test_a_process_with_new_rank_variables_is_a_rank() -> None:
    claimed = f"rank:{PARENT}:{NO_PLACE}:train.py-200/0/0"
    other = FIRST | {"LOCAL_RANK": "1"}
    assert part(claimed, "lightning/h-1.0/1", *TRAIN, environ=other) is JobPart.RANK
    assert part(claimed, "env/h-1.0/1", *TRAIN) is JobPart.RANK
    # A process that a rank starts has that rank's variables, and is no new rank.
    assert part(claimed, "lightning/h-1.0/0", *TRAIN, environ=FIRST) is JobPart.HELPER
    assert part(f"rank:{PARENT}:lightning/h-1.0/1", "lightning/h-1.0/1", *TRAIN, environ=other) is JobPart.HELPER
    assert part(claimed, "lightning/h-1.0/1", "-c", "pass", environ=other) is JobPart.HELPER


def test_a_child_without_launcher_variables_knows_its_parent_rank() -> None:
    assert parent_of(f"rank:{PARENT}:{NO_PLACE}:train.py-200/run.0/3", PID) == ("train.py-200", "run.0", 3)
    for value in (
        f"rank:{PID}:{NO_PLACE}:train.py-200/run.0/3",
        f"rank:{PARENT}:{SLURM}",
        f"launcher:{PARENT}:{NO_PLACE}:a/b/0",
        f"rank:{PARENT}:{NO_PLACE}",
        f"rank:{PARENT}:{NO_PLACE}:a/b/c",
        str(PARENT),
        "",
    ):
        assert parent_of(value, PID) is None


@pytest.mark.parametrize("options", [["-m", "recipe.train"], ["-um", "recipe.train"], ["-umrecipe.train"]])
def test_the_name_of_a_module_is_read_from_the_command_line(options: list[str]) -> None:
    assert started_module(["-m", "--lr", "1"], [PYTHON, "-X", "dev", *options, "--lr", "1"]) == "recipe.train"


def run(directory: Path, *command: str, value: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python without a broker, started by this process as by ``run``, or with ``value`` in DBG_AUTOSTART."""
    variables = {"DBG_AUTOSTART": str(os.getpid()) if value is None else value, "DBG_GUARD": "0", **environ}
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**os.environ, "DBG_HOME": str(directory), "DBG_CONNECT_TIMEOUT": "60", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def is_rank(result: subprocess.CompletedProcess[str]) -> bool:
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    answer: dict[str, bool] = json.loads(result.stdout)
    return answer["rank"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SPEAKS)
    return path


def test_a_script_a_module_a_folder_and_inline_code_become_ranks(script: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__main__.py").write_text(SPEAKS)
    for command in (["train.py"], ["-m", "train"], ["folder"], ["-c", SPEAKS], ["-m", "dbg_agent", "train.py"]):
        assert is_rank(run(tmp_path, *command)), command
    assert is_rank(run(tmp_path, "train.py", value="word of a job script"))


def test_no_rank_starts_without_the_variable_or_in_an_isolated_interpreter(script: Path, tmp_path: Path) -> None:
    assert not is_rank(run(tmp_path, "train.py", value=""))
    assert not is_rank(run(tmp_path, "-S", "train.py"))
    stop = "train.py:1, __import__('os').write(1, b'somebody else was here')"
    for option in ("-I", "-E"):
        assert not is_rank(run(tmp_path, option, "train.py", DBG_STOP_AT=stop))


@pytest.mark.parametrize("option", ["-I", "-P"])
def test_no_folder_is_added_to_the_import_path_when_an_option_forbids_it(tmp_path: Path, option: str) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sys.path)\n")
    plain = run(tmp_path, option, "train.py", value="").stdout
    for command in (["train.py"], ["-m", "dbg_agent", "train.py"]):
        assert run(tmp_path, option, *command).stdout == plain


CHILDREN = """\
import multiprocessing, os, subprocess, sys
def is_connected():
    own_rank = sys.modules.get("dbg_agent.program.own_rank")
    return own_rank is not None and own_rank.current() is not None
def speak(queue):
    queue.put(is_connected())
if __name__ == "__main__":
    found = {"self": sys.modules["dbg_agent.program.own_rank"].current() is not None}
    for command in (["-c", open("train.py").read()], ["train.py"], ["-m", "train"]):
        child = subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, text=True)
        found[command[0]] = child.stdout
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        child = context.Process(target=speak, args=(queue,))
        child.start()
        found[method] = queue.get()
        child.join()
        with context.Pool(1) as pool:
            found[f"pool {method}"] = pool.apply(is_connected)
    print(found, flush=True)
    os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"] = "1", "2"
    os.execv(sys.executable, [sys.executable, "train.py"])
"""


def test_children_of_multiprocessing_connect_and_workers_of_a_pool_do_not(script: Path, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(CHILDREN)
    result = run(tmp_path, "-W", "ignore::DeprecationWarning", "parent.py")
    assert result.returncode == 0, result.stderr
    first, last = result.stdout.splitlines()
    assert first.count("True") == 4, first
    assert first.count("false") == 3, first
    assert first.count("False") == 3, first
    assert json.loads(last)["rank"]


def test_the_script_of_a_launcher_becomes_the_rank_and_the_launcher_does_not(script: Path, tmp_path: Path) -> None:
    """As with accelerate, which gives a single process no variables."""
    launcher = tmp_path / "accelerate"
    launcher.write_text(
        "import subprocess, sys\n"
        "assert 'dbg_agent.program.own_rank' not in sys.modules\n"
        "sys.exit(subprocess.run([sys.executable, 'train.py']).returncode)\n"
    )
    assert is_rank(run(tmp_path, str(launcher)))


def test_the_rank_knows_its_script_before_the_script_begins(tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(
        "import sys\nrank = sys.modules['dbg_agent.program.own_rank'].current()\n"
        "print(rank.membership.identity.script)\nsys.stdout.flush()\n"
    )
    assert run(tmp_path, "-um", "recipe").stdout == "-m recipe\n"
    assert run(tmp_path, "recipe.py").stdout == f"{tmp_path / 'recipe.py'}\n"


def test_an_error_is_one_line_and_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "dataclasses.py").write_text("raise RuntimeError('broken')\n")
    result = run(tmp_path, "train.py", PYTHONPATH=str(broken))
    assert result.stdout == "trained\n"
    assert [line for line in result.stderr.splitlines() if line.startswith("dbg-agent: ")] == result.stderr.splitlines()
    assert "RuntimeError: broken" in result.stderr


def modules(folder: Path, *options: str) -> set[str]:
    """Return what an interpreter has loaded when the program begins."""
    code = "import sys; print(*sys.modules)"
    environ = {name: value for name, value in os.environ.items() if name != "DBG_AUTOSTART"}
    command = [sys.executable, *options, "-c", code]
    return set(
        subprocess.run(command, env=environ, cwd=folder, check=True, capture_output=True, text=True).stdout.split()
    )


def test_without_the_variable_no_module_is_loaded(tmp_path: Path) -> None:
    # Python 3.15 imports the entry point that the file .start names.
    by_start = {"dbg_agent"} if sys.version_info >= (3, 15) else set()
    assert {name for name in modules(tmp_path) if name.startswith("dbg_")} == by_start
    # The line loads nothing, also where no line of another package has loaded something before.
    line = LINE.read_text()
    code = f"import site, sys; before = set(sys.modules); exec({line!r}); print(*set(sys.modules) - before)"
    environ = {name: value for name, value in os.environ.items() if name != "DBG_AUTOSTART"}
    result = subprocess.run([sys.executable, "-S", "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert not result.stdout.split()
