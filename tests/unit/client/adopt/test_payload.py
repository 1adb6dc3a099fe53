"""The code that runs in a process, and its answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_client.adopt.inject import Pipe
from dbg_client.adopt.payload import Answer, Outcome, as_expression, code_to_adopt, read_answer


@given(st.text())
def test_any_code_is_one_expression_of_ascii(text: str) -> None:
    compile(as_expression(f"x = {text!r}"), "text", "eval")
    assert as_expression(f"x = {text!r}").isascii()


def test_code_that_fails_says_why_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(str(tmp_path))
    monkeypatch.setitem(sys.modules, "dbg_agent.program.installing", None)
    names: dict[str, object] = {}
    try:
        exec(code_to_adopt(pipe.path, {}, []), names)  # noqa: S102
        answer = pipe.answer(10)
    finally:
        pipe.close()
    assert answer is not None
    assert answer.outcome is Outcome.FAILED
    assert "dbg_agent.program.installing" in answer.text
    assert set(names) == {"__builtins__"}


def test_a_program_with_a_module_of_its_own_in_the_place_of_one_of_ours_is_told_and_sees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = Pipe(str(tmp_path))
    monkeypatch.setitem(sys.modules, "json", None)
    monkeypatch.setitem(sys.modules, "dbg_agent.program.installing", None)  # this process is to be no rank
    try:
        exec(code_to_adopt(pipe.path, {}, []), {})  # noqa: S102
        answer = pipe.answer(10)
    finally:
        pipe.close()
    assert answer == Answer(outcome=Outcome.FAILED, text="ModuleNotFoundError in json")


def test_code_that_comes_late_finds_nobody_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dbg_agent.program.installing", None)
    exec(code_to_adopt(str(tmp_path / "gone"), {}, []), {})  # noqa: S102


def test_answers_are_read() -> None:
    assert read_answer('{"outcome": "adopted", "key": "k", "main": false}') == Answer(
        outcome=Outcome.ADOPTED, key="k", main=False
    )


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
    first: dict[str, object], outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dbg_agent.program.installing", None)
    monkeypatch.setitem(vars(sys), "_dbg_adopts", first)
    pipe = Pipe(str(tmp_path))
    try:
        exec(code_to_adopt(pipe.path, {}, []), {})  # noqa: S102
        answer = pipe.answer(10)
    finally:
        pipe.close()
    assert answer is not None
    assert answer.outcome is outcome
    assert vars(sys).get("_dbg_adopts") is (first if outcome is Outcome.BUSY else None)
