"""The status line of a replay: it always has its width, whatever a recording says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_client.replay.player import Player
from dbg_client.replay.status import status_line
from dbg_client.views.width import text_width
from tests.client.replay.tapes import tape


def test_it_says_where_the_replay_is() -> None:
    one = Player(tape((1, "o", "a"), (1, "m", "alice types"), (1, "o", "b")), 0.0)
    line = status_line(one, (24, 80), 100, None)
    assert line.startswith(" playing  0:00/0:03 ")
    assert "q quits" in line
    one.pause(0.0)
    one.change_speed(1, 0.0)
    one.jump(2.5, 0.0)
    assert status_line(one, (24, 80), 100, None).startswith(" paused  0:02/0:03  2x   alice types ")
    assert "part of a larger screen, 80x24" in status_line(one, (23, 79), 120, None)
    one.jump(9.0, 0.0)
    assert status_line(one, (24, 80), 100, None).startswith(" the end ")
    assert status_line(one, (24, 80), 100, "los").startswith(" /los   Enter searches, Esc gives up")


@given(st.text(), st.integers(0, 200), st.none() | st.text())
def test_no_text_makes_it_wider_or_acts_on_a_terminal(text: str, columns: int, sought: str | None) -> None:
    one = Player(tape((0, "m", text), (1, "o", "a")), 0.0)
    one.note = text
    line = status_line(one, (24, 80), columns, sought)
    assert text_width(line) <= max(0, columns - 1)
    assert line.isprintable()
    line.encode()
