"""Processes that may become ranks: how they are found and told where the broker is, and what they answer."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_agent.launch.launchers import ROWS
from dbg_client.adopt.adopt import line_for, rank_variables
from dbg_client.adopt.gdb import major_version
from dbg_client.adopt.inject import Pipe, run_remotely
from dbg_client.adopt.payload import Answer, Outcome, as_expression, code_to_adopt, read_answer
from dbg_client.adopt.process import (
    ProcessInfo,
    is_guard,
    is_ours,
    program_words,
    starts_ranks,
    topmost,
    waits_safely,
)
from dbg_wire.errors import BadInput
from dbg_wire.launchers import RANK_VARIABLES
from dbg_wire.libraries import call_names
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.rank_infos import rank as listed_rank

ADOPTED = Answer(outcome=Outcome.ADOPTED, key="k")


def touch(path: str) -> None:
    """Take note of nothing: the files here answer."""


def test_a_rank_finds_the_broker_of_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "broker.json").touch()
    home = {"DBG_HOME": str(tmp_path)}
    assert rank_variables(None, home, touch) == home
    assert rank_variables("h:1", {**home, "DBG_TOKEN": "driver's"}, touch) == {**home, "DBG_BROKER": "h:1"}
    # A home with a broker.json has the token for ranks; a terminal's own may be another one.
    assert rank_variables(None, {**home, "DBG_TOKEN_FILE": "/t"}, touch) == home


def test_token_file_is_passed_on_without_a_home(tmp_path: Path) -> None:
    variables = {"DBG_BROKER": "h:1", "DBG_TOKEN_FILE": "/t"}
    assert rank_variables(None, variables, touch) == variables
    with pytest.raises(BadInput, match="DBG_HOME"):
        rank_variables(None, {}, touch)


def test_line_shows_the_command_to_type(approved: Approved) -> None:
    rank = listed_rank("gpu013:3", state=RankState.RUNNING)
    assert (
        line_for(812, ADOPTED, rank, [rank]) == f"adopted {rank.address} (pid 812): dbg-attach where {rank.address}\n"
    )
    spinning = Answer(outcome=Outcome.ADOPTED, key="k", main=False)
    approved(line_for(812, spinning, rank, [rank]))
    already = Answer(outcome=Outcome.ALREADY, key="k")
    approved(line_for(812, already, rank, [rank]), "2")


@pytest.mark.parametrize("error", [None, PermissionError, RuntimeError])
def test_script_file_is_removed_whether_or_not_it_was_run(
    error: type[Exception] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def remote_exec(pid: int, script: str) -> None:
        asked.append((pid, Path(script).read_text()))
        if error is not None:
            raise error

    monkeypatch.setattr(sys, "remote_exec", remote_exec, raising=False)
    with pytest.raises(error) if error is not None else nullcontext():
        assert run_remotely(7, str(tmp_path), "pass", lambda seconds: ADOPTED) is ADOPTED
    assert asked == [(7, "pass")]
    assert not list(tmp_path.iterdir())


@given(st.text())
def test_any_code_becomes_one_ascii_expression(text: str) -> None:
    compile(as_expression(f"x = {text!r}"), "text", "eval")
    assert as_expression(f"x = {text!r}").isascii()


def answer_here(folder: Path, names: dict[str, object]) -> Answer | None:
    """Run in this process what makes a rank of one, and return its answer."""
    pipe = Pipe(str(folder))
    try:
        exec(code_to_adopt(pipe.path, {}, []), names)  # noqa: S102
        return pipe.answer(10)
    finally:
        pipe.close()


@pytest.fixture
def no_rank(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let this process become no rank."""
    monkeypatch.setitem(sys.modules, "dbg_agent.program.installing", None)
    return monkeypatch


def test_failed_code_reports_the_reason_and_does_not_raise(tmp_path: Path, no_rank: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    answer = answer_here(tmp_path, names)
    assert answer is not None
    assert answer.outcome is Outcome.FAILED
    assert "dbg_agent.program.installing" in answer.text
    assert set(names) == {"__builtins__"}


@given(st.text() | st.sampled_from(["adopted", "adopted\t\t", "gone\t\t\t", "adopted\t\t\t\t"]))
def test_malformed_answer_is_not_read(line: str) -> None:
    assert read_answer(line) is None


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        ({"pid": os.getpid(), "main": True, "pipe": "another"}, Outcome.BUSY),
        ({"pid": os.getpid(), "main": False, "pipe": "another"}, Outcome.FAILED),
        ({"pid": 0, "main": True, "pipe": "another"}, Outcome.FAILED),
    ],
    ids=["another terminal's", "that of a borrowed thread", "that of the process before the fork"],
)
def test_only_one_adoption_runs_at_a_time(
    first: dict[str, object], outcome: Outcome, tmp_path: Path, no_rank: pytest.MonkeyPatch
) -> None:
    no_rank.setitem(vars(sys), "_dbg_adopts", first)
    answer = answer_here(tmp_path, {})
    assert answer is not None
    assert answer.outcome is outcome
    assert vars(sys).get("_dbg_adopts") is (first if outcome is Outcome.BUSY else None)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/venv/bin/dbg-attach list", "ours"),
        ("-m dbg_client all", "ours"),
        ("/a/dbg_agent/guard/process.py", "ours"),
        ("-m torch.distributed.run x.py", "launcher"),
        ("/usr/bin/torchrun x.py", "launcher"),
        ("-m deepspeed.launcher.x", "launcher"),
        ("train.py dbg-attach", ""),
        ("-m train", ""),
        ("-c pass", ""),
        ("", ""),
    ],
)
def test_own_commands_and_launchers_are_recognized(command: str, kind: str) -> None:
    words = command.split()
    assert is_ours(words) is (kind == "ours")
    assert starts_ranks(words, {}) is (kind == "launcher")
    assert kind or not is_guard(words)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("python train.py --lr 1", "train.py --lr 1"),
        ("python -u -X dev -W error train.py", "train.py"),
        ("python -um torch.distributed.run x.py", "-m torch.distributed.run x.py"),
        ("python -m train", "-m train"),
        ("python -c pass", "-c pass"),
        ("python", ""),
    ],
)
def test_program_follows_the_interpreter_options(argv: str, words: str) -> None:
    assert " ".join(program_words(tuple(argv.split()))) == words


def process(pid: int, parent: int, command: str, **environ: str) -> ProcessInfo:
    """Return a process of Python."""
    argv = ("python", *command.split())
    return ProcessInfo(
        pid=pid, uid=1, parent=parent, state="S", tracer=0, name="python", age=60.0, argv=argv, environ=environ
    )


def found(*processes: ProcessInfo, **own: str) -> list[tuple[int, int, bool]]:
    """Return pid, rank and whether it is a rank already, of each candidate."""
    candidates = topmost({process.pid: process for process in processes}, own)
    return [(one.pid, one.rank, one.is_rank) for one in candidates]


def test_only_ranks_are_found_among_processes() -> None:
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "h"}
    assert found(
        process(1, 0, "shell.py"),
        process(10, 1, "/venv/bin/torchrun train.py", SLURM_PROCID="0", SLURM_STEP_ID="0"),
        process(12, 10, "train.py", RANK="1", **place),
        process(11, 10, "train.py", RANK="0", **place),
        process(20, 11, "-c from multiprocessing.spawn import main", RANK="0", **place),
        process(21, 20, "-c deeper", RANK="0", **place),
        process(22, 1, "-c from multiprocessing.resource_tracker import main;main(5)", RANK="0", **place),
        process(30, 12, "/x/dbg_agent/guard/process.py", RANK="1", **place),
        process(40, 1, "/venv/bin/dbg-attach adopt --mine", RANK="5", **place),
        process(41, 1, "-m dbg_broker serve", RANK="5", **place),
    ) == [(11, 0, False), (12, 1, True)]


def test_rank_variable_without_a_world_is_ignored() -> None:
    assert found(process(10, 1, "train.py", RANK="0")) == []
    assert found(process(10, 1, "train.py", RANK="x", WORLD_SIZE="2")) == []


def test_only_processes_of_the_schedulers_job_are_found() -> None:
    two = [process(pid, 1, "train.py", OMPI_COMM_WORLD_RANK="0", SLURM_JOB_ID=str(pid)) for pid in (10, 11)]
    assert found(*two) == [(10, 0, False), (11, 0, False)]
    assert found(*two, SLURM_JOB_ID="11") == [(11, 0, False)]


def test_rank_that_starts_the_others_is_found() -> None:
    place = {"MASTER_ADDR": "h", "MASTER_PORT": "1", "WORLD_SIZE": "2"}
    assert found(
        process(10, 1, "train.py", LOCAL_RANK="0", **place), process(11, 10, "train.py", LOCAL_RANK="1", **place)
    ) == [(10, 0, False), (11, 1, False)]


def test_all_launchers_of_the_agent_are_known() -> None:
    assert {row.rank for row in ROWS if row.rank} == set(RANK_VARIABLES)


@pytest.mark.parametrize(
    ("machine", "number", "is_safe"),
    [
        ("x86_64", 202, True),
        ("x86_64", 9, False),
        ("x86_64", 12, False),
        ("x86_64", None, False),
        ("m68k", 202, False),
        (os.uname().machine, {name: n for n, name in call_names(os.uname().machine).items()}["futex"], True),
    ],
    ids=["futex", "mmap", "brk", "none", "another machine", "this machine"],
)
def test_waiting_is_safe_and_allocating_memory_is_not(machine: str, number: int | None, is_safe: bool) -> None:
    assert waits_safely(machine, number) is is_safe


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1\nCopyright (C) 2023 Free Software Foundation, Inc.\n", 13),
        ("GNU gdb (Ubuntu 12.1-0ubuntu1~22.04) 12.1\n", 12),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 10.2-13.el9\n", 10),
        ("GNU gdb (GDB) 15.2\n", 15),
        ("something else 99.1\n", 0),
        ("", 0),
    ],
)
def test_gdb_version_is_read_for_each_distribution(output: str, version: int) -> None:
    assert major_version(output) == version
