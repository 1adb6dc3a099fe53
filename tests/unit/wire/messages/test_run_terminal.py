"""What a run and its terminal tell each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.errors import PeerError
from dbg_wire.messages.run_terminal import Task, Told, decode_task, decode_told, encode_line
from dbg_wire.records.ranks import Breakpoint
from tests.conftest import Approved
from tests.unit.wire.values import records

TEXT = st.text(st.characters(codec=None), max_size=20)
TASKS = st.builds(
    Task,
    job=TEXT,
    output=TEXT,
    ranks=TEXT,
    prefer=st.none() | st.integers(0, 99999),
    commands=st.none() | TEXT,
    attach=st.booleans(),
)
BREAKPOINTS = records(Breakpoint)
TOLD = st.builds(
    Told,
    rank=st.none() | st.integers(0, 99999),
    breakpoints=st.lists(BREAKPOINTS, max_size=4).map(tuple),
    again=st.booleans(),
    took_part=st.booleans(),
    hung=st.booleans(),
)


@given(TASKS)
def test_a_task_arrives_as_one_line(task: Task) -> None:
    line = encode_line(task)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_task(line) == task


@given(TOLD)
def test_what_happened_arrives_as_one_line(told: Told) -> None:
    line = encode_line(told)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_told(line) == told


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"1", b"null", b'"a"', b"{}", b'{"job":"a"}', b"\xff", b'{"x":1}'])
def test_what_is_no_task_is_the_runs_fault(line: bytes) -> None:
    with pytest.raises(PeerError, match="no task"):
        decode_task(line)


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"1", b"null", b'"a"', b"\xff", b'{"x":1}', b'{"breakpoints":5}', b'{"breakpoints":[5]}',
     b'{"breakpoints":[{"file":"a"}]}', b'{"breakpoints":["a"]}'],
)  # fmt: skip
def test_what_says_nothing_is_the_terminals_fault(approved: Approved, line: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        decode_told(line)
    approved(str(caught.value))


def test_what_has_not_happened_need_not_be_told() -> None:
    assert decode_told(b"{}") == Told()
