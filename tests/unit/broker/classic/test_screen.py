"""A stock PuDB as the broker presents it: screens that come back, keys that arrive once, prints that are not lost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic.screen import NO_REACTION, REACTION_SECONDS, ScreenSession
from dbg_broker.classic.session import QUIET_SECONDS, SessionOutput, Write
from dbg_wire.codec import Input, Output
from dbg_wire.limits import MAX_DATA_BYTES
from dbg_wire.messages import (
    Action,
    Answer,
    Applied,
    Ask,
    Audience,
    Complete,
    Completions,
    Discarded,
    Interrupt,
    Kind,
    Notice,
    Probe,
    Pulse,
    Repaint,
    Report,
)
from dbg_wire.records.ranks import RankState
from tests.support.screen import VirtualScreen

ENTER = b"\x1b[?1049h\x1b[?1000l\x1b)0\x1b[?25l"
LEAVE = b"\x1b[?1000l\x1b[0;39;49m\x0f\x1b[?1049l\x1b[?25h"


def drawing(text: str, rows: int = 10) -> bytes:
    lines = b"".join(b"\x1b[%d;1H%b %d\x1b[K" % (row, text.encode(), row) for row in range(1, rows + 1))
    return b"\x1b[?25l\x1b[0;39;49m\x1b[H" + lines


def audience(viewers: int = 1, generation: int = 1) -> Audience:
    return Audience(viewers=viewers, generation=generation, rows=24, columns=80, colors=256)


def stopped(now: float = 0.0, *, viewers: int = 1) -> ScreenSession:
    session = ScreenSession(now)
    session.received(ENTER + drawing("one"), now)
    session.message(audience(viewers), now)
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


def test_a_session_is_proven_by_its_screen_alone() -> None:
    session = ScreenSession(0.0)
    session.received(b"hello\n" * 10_000, 0.0)
    assert not session.is_proven
    session.received(b"\x1b[?1049h", 0.0)
    assert session.is_proven
    report = session.report(2.5)
    assert report.state is RankState.STOPPED
    assert report.stop is not None
    assert (report.stop.reason, report.stop.age) == ("breakpoint", 2.5)
    assert report.session is not None
    assert report.session.engine == "pudb"


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "LEAVE"]), max_size=12), st.integers(1, 50))
def test_a_replay_gives_the_screen_that_a_viewer_has(steps: list[str], size: int) -> None:
    session = stopped()
    live = shown(session.message(Repaint(), 0.0))
    for step in steps:
        data = LEAVE + ENTER + drawing("new") if step == "LEAVE" else drawing(step, rows=len(step))
        for start in range(0, len(data), size):
            live += shown(session.received(data[start : start + size], 0.0))
    assert screen(shown(session.message(Repaint(), 0.0))) == screen(live)


def test_a_replay_asks_no_terminal_anything() -> None:
    session = stopped()
    session.received(b"\x1b[?2026$p\x1b[c", 0.0)
    replay = shown(session.message(Repaint(), 0.0))
    assert b"$p" not in replay
    assert b"\x1b[c" not in replay


def test_offsets_of_frames_join_and_none_is_too_long() -> None:
    session = stopped()
    outputs = session.received(drawing("x" * 70, rows=10) * 300, 0.0) + session.message(Repaint(), 0.0)
    frames = [deed for deed in outputs if isinstance(deed, Output)]
    assert max(len(frame.data) for frame in frames) == MAX_DATA_BYTES
    for before, after in pairwise(frames):
        assert after.offset == before.offset + len(before.data)


def test_a_step_shows_no_running_and_a_program_that_stays_away_does() -> None:
    session = stopped()
    outputs = session.received(LEAVE + ENTER + drawing("two"), 1.0)
    assert not of_type(outputs, Report)
    session.received(LEAVE, 2.0)
    assert session.tick(2.0 + QUIET_SECONDS / 2) == []
    (report,) = of_type(session.tick(2.0 + QUIET_SECONDS), Report)
    assert isinstance(report, Report)
    assert (report.report.state, report.report.stepping) == (RankState.RUNNING, True)
    assert report.report.stop is not None
    (report,) = of_type(session.received(ENTER + drawing("two"), 9.0), Report)
    assert isinstance(report, Report)
    assert report.report.state is RankState.STOPPED


def test_prints_are_shown_while_the_program_runs_and_told_after_it_stopped() -> None:
    session = stopped()
    live = shown(session.message(Repaint(), 0.0))
    live += shown(session.received(LEAVE + b"epoch 1\nloss \xc3", 1.0))
    live += shown(session.received(b"\xa9\n", 1.0))
    assert screen(live)[:2] == ["epoch 1", "loss é"]
    assert screen(shown(session.message(Repaint(), 1.0)))[:2] == ["epoch 1", "loss é"]
    outputs = session.received(ENTER + drawing("two"), 1.1)
    assert Notice(text="the program printed: loss é") in outputs
    assert screen(live, shown(outputs))[0] == "two 1"
    session.message(audience(0), 1.2)
    assert Notice(text="the program printed: loss é") in session.message(audience(1), 1.3)
    live = shown(session.received(LEAVE + b"epoch 2\n", 2.0))
    assert screen(live)[:3] == ["epoch 1", "loss é", "epoch 2"]


def test_hostile_prints_can_not_act_on_a_terminal() -> None:
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
    session.message(audience(generation=2), 0.0)
    assert written(session.keys(keys(b"c", generation=2), 0.0)) == b"c"
    (lost,) = session.keys(Input(session=1, stop=2, generation=2, offset=1, data=b"c"), 0.0)
    assert isinstance(lost, Discarded)


def test_keys_are_not_kept_for_a_stop_that_nobody_has_seen() -> None:
    session = stopped()
    session.received(LEAVE, 0.0)
    assert written(session.keys(keys(b"n"), 0.1)) == b"n"
    session.tick(QUIET_SECONDS)
    (lost,) = session.keys(keys(b"q", offset=1), 1.0)
    assert isinstance(lost, Discarded)
    assert (lost.offset, lost.count) == (2, 1)
    session.received(ENTER, 2.0)
    assert written(session.keys(keys(b"s", offset=2), 2.0)) == b"s"


def test_what_it_can_not_do_it_says() -> None:
    session = stopped()
    for action, word in ((Action.CONTINUE, "type"), (Action.SCREEN, "attach"), (Action.KILL, "type q")):
        (answer,) = session.message(Ask(request=3, action=action), 0.0)
        assert isinstance(answer, Answer)
        assert (answer.request, answer.kind) == (3, Kind.ERROR)
        assert word in answer.text
    complete = Complete(request=4, prompt=1, generation=1, line="a", begin=0, end=1)
    assert session.message(complete, 0.0) == [Completions(request=4, matches=())]
    assert of_type(session.message(Interrupt(generation=1), 0.0), Notice)
    assert session.message(Probe(), 0.0) == [Pulse(where=None)]


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_junk_harms_nothing(chunks: list[bytes]) -> None:
    session = stopped()
    for chunk in chunks:
        session.received(chunk, 0.0)
    session.message(Repaint(), 0.0)


def test_keys_without_any_reaction_are_told_as_what_they_may_come_from() -> None:
    session = stopped()
    session.keys(keys(b"n"), 1.0)
    session.keys(keys(b"n", offset=1), 2.0)
    assert session.due == 1.0 + REACTION_SECONDS
    assert session.tick(1.0 + REACTION_SECONDS) == [Notice(text=NO_REACTION)]
    assert session.report(9.0).state is RankState.STOPPED
    assert session.due is None
    session.keys(keys(b"n", offset=2), 9.0)
    assert session.tick(9.0 + REACTION_SECONDS) == [Notice(text=NO_REACTION)]
