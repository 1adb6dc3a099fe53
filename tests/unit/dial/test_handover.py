"""A peer dials often for some seconds after a broker has ended, and not after it was turned away."""

from __future__ import annotations

import pytest

from dbg_dial.waiting import HANDOVER_SECONDS, PAUSE_SECONDS, SHUTDOWN, Handover


@pytest.mark.parametrize("code", [SHUTDOWN, 1006, None])
def test_the_next_broker_is_expected_for_some_seconds(code: int | None) -> None:
    handover = Handover()
    assert handover.bound(2.0, 0.5) == 2.0
    handover.ended(code, 100.0)
    assert handover.bound(2.0, 100.0) == PAUSE_SECONDS
    assert handover.bound(0.1, 100.0) == 0.1
    assert handover.bound(2.0, 100.0 + HANDOVER_SECONDS) == 2.0


@pytest.mark.parametrize("code", [1000, 1002, 4000, 4003])
def test_other_ends_announce_no_next_broker(code: int) -> None:
    handover = Handover()
    handover.ended(code, 100.0)
    assert handover.bound(2.0, 100.0) == 2.0
