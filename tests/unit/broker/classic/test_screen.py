"""A stock PuDB as the broker presents it: screens that come back, keys that arrive once, prints that are not lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic.session import MAX_KEPT, QUIET_SECONDS, SessionOutput, StockSession, Write
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Applied,
    Discarded,
    Notice,
    Repaint,
    Viewers,
)
from dbg_wire.records.ranks import RankState
from tests.support.screen import VirtualScreen

ENTER = b"\x1b[?1049h\x1b[?1000l\x1b)0\x1b[?25l"
LEAVE = b"\x1b[?1000l\x1b[0;39;49m\x0f\x1b[?1049l\x1b[?25h"


def drawing(text: str, rows: int = 10) -> bytes:
    lines = b"".join(b"\x1b[%d;1H%b %d\x1b[K" % (row, text.encode(), row) for row in range(1, rows + 1))
    return b"\x1b[?25l\x1b[0;39;49m\x1b[H" + lines


def viewers_message(viewers: int = 1, generation: int = 1) -> Viewers:
    return Viewers(viewers=viewers, generation=generation, rows=24, columns=80, colors=256)


def stopped(now: float = 0.0, *, viewers: int = 1) -> StockSession:
    session = StockSession(now)
    session.received(ENTER + drawing("one"), now)
    session.message(viewers_message(viewers))
    return session


def shown(outputs: list[SessionOutput]) -> bytes:
    return b"".join(deed.data for deed in outputs if isinstance(deed, Output))


def written(outputs: list[SessionOutput]) -> bytes:
    return b"".join(deed.data for deed in outputs if isinstance(deed, Write))


def of_type(outputs: list[SessionOutput], kind: type[SessionOutput]) -> list[SessionOutput]:
    return [deed for deed in outputs if isinstance(deed, kind)]


def screen(*data: bytes) -> list[str]:
    virtual = VirtualScreen(24, 80)
    for piece in data:
        virtual.feed(piece)
    return virtual.rows


def keys(data: bytes, offset: int = 0, generation: int = 1) -> Input:
    return Input(session=1, stop=0, generation=generation, offset=offset, data=data)


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "LEAVE"]), max_size=12), st.integers(1, 50))
def test_replay_gives_the_same_screen_as_live_output(steps: list[str], size: int) -> None:
    session = stopped()
    live = shown(session.message(Repaint()))
    for step in steps:
        data = LEAVE + ENTER + drawing("new") if step == "LEAVE" else drawing(step, rows=len(step))
        for start in range(0, len(data), size):
            live += shown(session.received(data[start : start + size], 0.0))
    assert screen(shown(session.message(Repaint()))) == screen(live)


def test_hostile_output_cannot_control_the_terminal() -> None:
    session = stopped()
    live = shown(session.received(LEAVE + b"\x1b]52;c;aGk=\x07\x1b[2Jhi\x9b\x05\n", 0.0))
    assert b"hi" in live
    assert b"\x1b]" not in live
    assert b"\x05" not in live


def test_keys_are_written_once_and_acknowledged() -> None:
    session = stopped()
    outputs = session.keys(keys(b"nn"), 0.0)
    assert (written(outputs), of_type(outputs, Applied)) == (b"nn", [Applied(generation=1, offset=2)])
    assert session.keys(keys(b"nn"), 0.0) == []
    assert written(session.keys(keys(b"nns", offset=0), 0.0)) == b"s"
    (lost,) = session.keys(keys(b"q", generation=7), 0.0)
    assert isinstance(lost, Discarded)
    session.message(viewers_message(generation=2))
    assert written(session.keys(keys(b"c", generation=2), 0.0)) == b"c"
    (lost,) = session.keys(Input(session=1, stop=2, generation=2, offset=1, data=b"c"), 0.0)
    assert isinstance(lost, Discarded)


def test_keys_typed_while_the_program_runs_reach_no_later_stop() -> None:
    session = stopped()
    session.received(LEAVE, 1.0)
    session.tick(1.0 + QUIET_SECONDS)
    (lost,) = session.keys(keys(b"q"), 2.0)
    assert isinstance(lost, Discarded)
    assert session.report(2.0).state is RankState.RUNNING


def test_truncated_screen_is_drawn_again() -> None:
    session = stopped()
    while not of_type(session.message(Repaint()), Write):
        session.received(drawing("x" * 60, 20) * 50, 0.0)
    outputs = session.message(Repaint())
    assert screen(shown(outputs)) == screen(ENTER, drawing("x" * 60, 20))
    assert written(outputs) == b"\x0c"
    assert len(shown(outputs)) <= MAX_KEPT + 100


def test_new_terminal_receives_the_last_printed_line() -> None:
    session = stopped(viewers=0)
    session.received(LEAVE + b"epoch 1\nepoch 2\n" + ENTER + drawing("two"), 0.0)
    (notice,) = session.message(viewers_message())
    assert isinstance(notice, Notice)
    assert "epoch 2" in notice.text
