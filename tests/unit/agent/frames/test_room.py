"""A stop is refused where the stack has no room for it, whatever room is left."""

from __future__ import annotations

import pytest

from dbg_agent.frames.stacks import STACK_FRAMES, has_room, reports_no_room
from tests.support.calls import with_calls_left

NEAR = STACK_FRAMES // 4


def test_there_is_room_far_from_the_limit() -> None:
    reported: list[Exception] = []
    assert has_room()
    assert not reports_no_room(reported.append)
    assert reported == []


def test_missing_room_is_reported_once_close_to_the_limit() -> None:
    reported: list[Exception] = []
    assert not with_calls_left(NEAR, has_room)
    assert with_calls_left(NEAR, lambda: reports_no_room(reported.append))
    assert [type(error) for error in reported] == [RecursionError]


@pytest.mark.parametrize("left", range(4, 10))
def test_no_error_is_raised_without_room_to_report(left: int) -> None:
    def report(_error: Exception, nested: int = 0) -> None:
        report(_error, nested + 1)

    assert with_calls_left(left, lambda: reports_no_room(report))
