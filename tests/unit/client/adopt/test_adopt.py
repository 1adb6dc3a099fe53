"""What `adopt` says of processes and ranks, and how a rank is told where the broker is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.adopt.adopt import line_for, rank_variables, table
from dbg_client.adopt.found import Candidate, is_guard, is_ours, starts_ranks
from dbg_client.adopt.inject import Pipe, can_remote_exec, run_remotely
from dbg_client.adopt.payload import Answer, Outcome, as_expression, code_to_adopt, read_answer
from dbg_wire.errors import BadInput
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


def test_without_a_home_the_file_of_the_token_is_told(tmp_path: Path) -> None:
    variables = {"DBG_BROKER": "h:1", "DBG_TOKEN_FILE": "/t"}
    assert rank_variables(None, variables, touch) == variables
    with pytest.raises(BadInput, match="no home"):
        rank_variables(None, {}, touch)


def test_a_line_says_what_to_type(approved: Approved) -> None:
    rank = listed_rank("gpu013:3", state=RankState.RUNNING)
    assert (
        line_for(812, ADOPTED, rank, [rank]) == f"adopted {rank.address} (pid 812): dbg-attach where {rank.address}\n"
    )
    spinning = Answer(outcome=Outcome.ADOPTED, key="k", main=False)
    approved(line_for(812, spinning, rank, [rank]))
    already = Answer(outcome=Outcome.ALREADY, key="k")
    approved(line_for(812, already, rank, [rank]), "2")


def test_the_table_is_aligned_and_harmless() -> None:
    rows = table([Candidate(812, 3, "train.py", 65.0), Candidate(81234, 11, "evil\x1b[2J.py", 1.0)]).splitlines()
    assert rows[0].split() == ["RANK", "PID", "AGE", "SCRIPT"]
    assert "\x1b" not in rows[2]
    assert rows[1].index("train.py") == rows[2].index("evil")


def test_only_the_same_version_runs_a_file_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: None, raising=False)
    assert can_remote_exec(sys.version_info[:2])
    assert not can_remote_exec((2, 7))
    assert not can_remote_exec(None)


def test_the_file_has_the_code_and_goes_once_it_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def remote_exec(pid: int, script: str) -> None:
        asked.append((pid, Path(script).read_text()))

    monkeypatch.setattr(sys, "remote_exec", remote_exec, raising=False)
    assert run_remotely(7, str(tmp_path), "pass", lambda seconds: ADOPTED) is ADOPTED
    assert asked == [(7, "pass")]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [PermissionError, RuntimeError])
def test_where_it_is_forbidden_the_other_way_is_left(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remote_exec(pid: int, script: str) -> None:
        raise error

    monkeypatch.setattr(sys, "remote_exec", remote_exec, raising=False)
    assert run_remotely(7, str(tmp_path), "pass", lambda seconds: ADOPTED) is None
    assert not list(tmp_path.iterdir())


@given(st.text())
def test_any_code_is_one_expression_of_ascii(text: str) -> None:
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


def test_code_that_fails_says_why_and_raises_nothing(tmp_path: Path, no_rank: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    answer = answer_here(tmp_path, names)
    assert answer is not None
    assert answer.outcome is Outcome.FAILED
    assert "dbg_agent.program.installing" in answer.text
    assert set(names) == {"__builtins__"}


def test_a_module_of_the_program_in_the_place_of_one_of_ours_is_told(
    tmp_path: Path, no_rank: pytest.MonkeyPatch
) -> None:
    no_rank.setitem(sys.modules, "json", None)
    assert answer_here(tmp_path, {}) == Answer(outcome=Outcome.FAILED, text="ModuleNotFoundError in json")


@given(st.text() | st.sampled_from(["[]", "{}", "1", '{"outcome": 1}', '{"outcome": []}', "null"]))
def test_what_is_no_answer_is_none(line: str) -> None:
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
def test_one_call_at_a_time_makes_a_rank(
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
def test_ours_and_launchers_are_known(command: str, kind: str) -> None:
    words = command.split()
    assert is_ours(words) is (kind == "ours")
    assert starts_ranks(words, {}) is (kind == "launcher")
    assert kind or not is_guard(words)
