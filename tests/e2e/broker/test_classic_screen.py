"""A stock PuDB as the broker presents it: screens that come back, keys that arrive once, prints that are not lost."""

from __future__ import annotations

from dbg_broker.classic.screen import MAX_KEPT
from dbg_wire.messages import (
    Notice,
    Repaint,
)
from tests.unit.broker.classic.test_screen import (
    ENTER,
    LEAVE,
    drawing,
    of_type,
    screen,
    shown,
    stopped,
    written,
)


def test_a_screen_that_grew_too_long_is_cut_and_says_so_until_the_next_step() -> None:
    session = stopped()
    for number in range(2000):
        session.received(drawing(f"{number:4} {'x' * 60}"), 0.0)
    outputs = session.message(Repaint(), 0.0)
    assert len(shown(outputs)) <= MAX_KEPT + 100
    assert screen(shown(outputs))[0].startswith("1999 xxx")
    assert b"\x1b)0" in shown(outputs)[:200]
    assert "incomplete" in str(of_type(outputs, Notice))
    assert written(outputs) == b"\x0c"
    session.received(LEAVE + ENTER + drawing("two"), 1.0)
    outputs = session.message(Repaint(), 1.0)
    assert not of_type(outputs, Notice)
    assert not written(outputs)
