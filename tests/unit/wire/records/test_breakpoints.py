"""Questions about breakpoints, as they cross the wire."""

from __future__ import annotations

import pytest

from dbg_wire.limits import MAX_BREAKPOINTS, MAX_TEXT
from dbg_wire.messages import Action, Question
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from dbg_wire.records.record import checked


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (BreakpointsWish(set=(BreakpointWish(file="train.py", line=3),)), "not an absolute path"),
        (BreakpointsWish(set=(BreakpointWish(file="/train.py", line=0),)), "line is 0, below 1"),
        (BreakpointsWish(clear=(LineOfFile(file="/a", line=1),) * (MAX_BREAKPOINTS + 1)), "101 elements, above 100"),
    ],
)
def test_a_wrong_wish_is_refused_with_the_reason(wish: BreakpointsWish, why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        checked(wish)


def test_a_question_is_no_longer_than_a_text() -> None:
    wish = BreakpointsWish(clear=(LineOfFile(file="/" + "x" * 4000, line=1),) * 5)
    with pytest.raises(InvalidMessage, match=f"inquiry has 20005 characters, above {MAX_TEXT}"):
        Question(request=1, keys=(), action=Action.BREAKPOINTS, seconds=1.0, inquiry=wish)
