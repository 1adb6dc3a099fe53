"""Completion of expressions and statements at pdb's prompt, beside that of commands."""

from __future__ import annotations

import sys

import pytest

from dbg_agent.rank.rank import Rank
from dbg_wire.messages import Complete
from tests.unit.agent.pdb_driver import Driver, drive


class Optimizer:
    momentum = 0.9
    moments = 2


def train(rank: Rank) -> float:
    optimizer = Optimizer()
    next_batch = 1
    rank.stopping.stop(sys._getframe(), "breakpoint")
    next_batch += 1
    return optimizer.momentum + next_batch


@pytest.mark.parametrize(
    ("line", "begin", "matches"),
    [
        ("optimizer.mom", 0, ["optimizer.moments", "optimizer.momentum"]),
        ("opti", 0, ["optimizer"]),
        ("nex", 0, ["next", "next_batch"]),
        ("!optimizer.mome", 0, ["!optimizer.moments", "!optimizer.momentum"]),
        ("x = optimizer.mom", 4, ["optimizer.moments", "optimizer.momentum"]),
        ("len(optimizer.mom", 4, ["optimizer.moments", "optimizer.momentum"]),
        ("for i in next", 9, ["next_batch"]),
        ("p optimizer.mom", 2, ["optimizer.moments", "optimizer.momentum"]),
        ("unti", 0, ["until"]),
        ("nobody.no", 0, []),
    ],
)
def test_expressions_are_completed_wherever_they_begin(
    driver: Driver, line: str, begin: int, matches: list[str]
) -> None:
    def script() -> None:
        number = driver.prompt().number
        asked = Complete(request=1, prompt=number, generation=1, line=line, begin=begin, end=len(line))
        driver.rank.from_broker.on_message(asked)
        driver.wait_for(lambda: driver.heard("completions"), "completions")
        driver.say("c")

    finish = drive(driver, script)
    train(driver.rank)
    finish()
    assert driver.heard("completions")[0]["matches"] == matches


def test_an_empty_line_offers_commands_alone(driver: Driver) -> None:
    def script() -> None:
        number = driver.prompt().number
        driver.rank.from_broker.on_message(Complete(request=1, prompt=number, generation=1, line="", begin=0, end=0))
        driver.wait_for(lambda: driver.heard("completions"), "completions")
        driver.say("c")

    finish = drive(driver, script)
    train(driver.rank)
    finish()
    found = driver.heard("completions")[0]["matches"]
    assert "next" in str(found)
    assert "next_batch" not in str(found)
