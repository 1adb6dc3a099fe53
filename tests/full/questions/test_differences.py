"""Answers that differ but read the same say where they differ; answers from an outer frame name the frame."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_differences import SCRIPT
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, wait_until_stopped


def test_values_that_read_the_same_say_where_they_differ(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, SCRIPT, 3)
    wait_until_stopped(home, 3)
    same, other = ask(home, "eval", "all", "count()")["groups"]
    assert same["text"] == other["text"]
    assert "difference" not in same
    assert other["difference"] == "first difference: ['names'][12345]: 'a' | 'b', @1 first"
    shown = attach(home, "eval", "all", "count()").stdout
    assert "(first difference: ['names'][12345]: 'a' | 'b', @1 first)" in shown
    # The search for the difference has not evaluated the expression again.
    assert [group["text"] for group in ask(home, "eval", "all", "times")["groups"]] == ["2"]
    (same,) = ask(home, "eval", "0-1", "table")["groups"]
    assert "difference" not in same
    _, other = ask(home, "eval", "all", "nested")["groups"]
    assert other["difference"] == "first difference: [1500][1]['a'][2]: 1500 | -1, @1 first"
