"""A question in the midst of a short step is answered at its end."""

from __future__ import annotations

import sys
import threading

import pytest

from dbg_agent.rank import stopping
from dbg_agent.rank.rank import Rank
from dbg_wire.messages import Action, Ask
from tests.unit.agent.pdb_driver import Driver, drive

NEVER = 60.0
"""Seconds after which nothing is called in these tests."""


def ask(request: int, action: Action = Action.EVAL, text: str = "total") -> Ask:
    return Ask(request=request, action=action, text=text, seconds=10.0)


def passes(begun: threading.Event, gate: threading.Event) -> bool:
    begun.set()
    return gate.wait(20)


def train(rank: Rank, begun: threading.Event, gate: threading.Event) -> int:
    total = 1
    rank.stopping.stop(sys._getframe(), "breakpoint")
    total += 1
    total += passes(begun, gate)
    return total


def answer_to(driver: Driver, request: int) -> dict[str, object]:
    def answers() -> list[dict[str, object]]:
        return [answer for answer in driver.heard("answer") if answer["request"] == request]

    driver.wait_for(answers, f"the answer to {request}")
    return answers()[0]


@pytest.mark.parametrize(
    ("action", "answered"), [(Action.EVAL, ("value", "3")), (Action.CONTINUE, ("value", "continued"))]
)
def test_a_question_during_a_step_is_answered_at_its_end(
    driver: Driver,
    monkeypatch: pytest.MonkeyPatch,
    action: Action,
    answered: tuple[str, str],
) -> None:
    monkeypatch.setattr(stopping, "SLOW_STEP_SECONDS", NEVER)
    in_time = driver.network.later
    driver.network.later = lambda after, call: in_time(after, call) if after < NEVER else None
    begun, gate = threading.Event(), threading.Event()

    def script() -> None:
        # From 3.13 on the first step is onto the line behind the stop.
        for _ in range(3 if sys.version_info >= (3, 13) else 2):
            driver.reply("n")
        assert begun.wait(20)
        driver.rank.from_broker.on_message(ask(1, action))
        gate.set()
        answer = answer_to(driver, 1)
        assert (answer["kind"], answer["text"]) == answered
        if action is Action.EVAL:
            driver.reply("c")

    finish = drive(driver, script)
    assert train(driver.rank, begun, gate) == 3
    finish()
