"""What a rank does about messages of the broker that need no stop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbg_agent.rank.from_broker import FromBroker
from dbg_wire.messages import Action, Ask


@pytest.mark.parametrize(
    ("action", "uses"),
    [
        (Action.EVAL, 1),
        (Action.COMMAND, 1),
        (Action.INSPECT, 1),
        (Action.WHERE, 0),
        (Action.SCREEN, 0),
        (Action.BREAKPOINTS, 0),
    ],
)
def test_a_question_about_the_stop_is_a_use_of_it_and_a_look_at_it_is_none(action: Action, uses: int) -> None:
    seen: list[str] = []
    rank: Any = SimpleNamespace(
        lease=SimpleNamespace(use=lambda: seen.append("used")),
        questions=SimpleNamespace(on_ask=lambda ask: seen.append(ask.action)),
    )
    FromBroker(rank).on_message(Ask(request=1, action=action, rows=24, columns=80, seconds=1.0, text="x"))
    assert seen == ["used"] * uses + [action]
