"""Answers that differ but read the same say where they differ; answers from an outer frame name the frame."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, wait_until_stopped
from tests.support.sessions import open_pudb

SCRIPT = """\
import os
from dbg_agent import set_trace

rank = int(os.environ["RANK"])
table = {"names": ["a"] * 20_000, "lr": 0.5}
table["names"][12_345] = "a" if rank < 2 else "b"
nested = [[number, {"a": [number] * 3}] for number in range(3000)]
nested[1500][1]["a"][2] = 1500 if rank < 2 else -1
times = 0

def count():
    global times
    times += 1
    return table

def step():
    inner = rank
    set_trace()

def main():
    outer = "of main"
    step()

main()
"""


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


def test_an_answer_from_up_the_stack_says_so(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, SCRIPT, 2)
    listed = wait_until_stopped(home, 2)
    (group,) = ask(home, "eval", "all", "type(rank)")["groups"]
    assert group["frame"]["function"] != "main"
    terminal = open_pudb(open_terminal, "0", listed[0]["address"])
    terminal.send("u")
    terminal.wait_for("outer: 'of main'")
    (group,) = ask(home, "eval", "0", "outer")["groups"]
    assert group["text"] == "'of main'"
    assert group["frame"]["function"] == "main"
    (both,) = ask(home, "eval", "all", "type(rank)")["groups"]
    assert both["frame"] is None
