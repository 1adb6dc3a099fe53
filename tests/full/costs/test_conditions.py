"""The condition of a stop sees the variables of its function, and changes nothing of that function."""

from __future__ import annotations

import timeit
from types import CodeType
from typing import Any

import pytest

from dbg_agent.breakpoints import points
from dbg_wire.records.stop_points import StopAt
from tests.unit.agent.breakpoints.test_inlined_conditions import with_stop

CALLS_COST = 40
"""Calls of an empty function that a false condition may cost; 10 to 15 were measured."""


def test_a_false_condition_costs_little(monkeypatch: pytest.MonkeyPatch, reached: list[Any]) -> None:
    many = ", ".join(f"v{i}=0" for i in range(40))
    source = f"def train(steps, {many}):\n    for step in range(steps):\n        v0 = step\n"
    empty = f"def empty(): pass\ndef train(steps, {many}):\n    for step in range(steps):\n        empty()\n"
    point = points.Point(StopAt(file="train.py", line=3, condition="step == -1"))
    monkeypatch.setattr(points, "POINTS", [point])

    def per_turn(code: CodeType) -> float:
        names: dict[str, Any] = {}
        exec(code, names)  # noqa: S102
        return min(timeit.repeat("train(2000)", globals=names, number=1, repeat=20))

    call = per_turn(compile(empty, "train.py", "exec"))
    assert per_turn(with_stop(source, point)) < CALLS_COST * call
    assert reached == []
