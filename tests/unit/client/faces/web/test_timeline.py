"""Tests of the time line."""

from __future__ import annotations

from dbg_client.faces.web.timeline import MAX_EVENTS, TimeLine
from dbg_wire.records.ranks import RankInfo, RankState
from tests.support.rank_infos import changed
from tests.unit.client.fake_broker import make_rank

RUNNING = make_rank(1, state=RankState.RUNNING, reason=None, where=None)


def kinds(*pairs: tuple[RankInfo | None, RankInfo | None]) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in TimeLine().changed(pairs, 1.0)]


def test_what_happens_to_many_at_once_is_one_event() -> None:
    stopped = [make_rank(n, key=f"j/{n}") for n in range(64)]
    pairs = [(changed(one, state=RankState.RUNNING), one) for one in stopped]
    (event,) = TimeLine().changed(pairs, 12.5)
    assert (event.number, event.at, event.kind, event.count) == (1, 12.5, "stop", 64)
    assert (event.key, event.rank, event.ranks) == ("j/0", "gpu013:0", "0-63")
    assert event.text == "stopped (breakpoint) at train.py:41 in step"


def test_each_change_of_state_has_its_kind() -> None:
    stopped, crashed = make_rank(1), make_rank(1, reason="crash", detail="ValueError: bad <b>batch</b>")
    silent = changed(RUNNING, state=RankState.UNRESPONSIVE)
    assert kinds((None, RUNNING)) == [("came", "connected")]
    assert kinds((RUNNING, crashed)) == [
        ("crash", "stopped (crash) at train.py:41 in step: ValueError: bad <b>batch</b>")
    ]
    assert kinds((stopped, RUNNING)) == [("goes_on", "goes on")]
    assert kinds((RUNNING, changed(RUNNING, state=RankState.HELD))) == [("held", "held: it waits for other ranks")]
    assert kinds((RUNNING, silent)) == [("silent", "does not answer")]
    assert kinds((silent, RUNNING)) == [("back", "answers again")]
    assert kinds((RUNNING, changed(RUNNING, state=RankState.EXITED, exit=-9))) == [("exit", "killed by SIGKILL")]
    assert kinds((RUNNING, None)) == []


def test_a_step_is_no_news_and_another_stop_is() -> None:
    stopped = make_rank(1, stop=3)
    moved = changed(stopped, where=stopped.where.replace(line=42) if stopped.where else None)
    assert kinds((stopped, moved)) == []
    assert [kind for kind, _ in kinds((stopped, changed(stopped, stop=4)))] == ["stop"]


def test_who_attaches_and_takes_the_keyboard_is_told() -> None:
    stopped = make_rank(1)
    driven = changed(stopped, driver="me@here", watchers=1)
    events = TimeLine().changed([(stopped, driven), (driven, stopped)], 1.0)
    assert [(event.kind, event.who, event.text) for event in events] == [
        ("driver", "me@here", "has the keyboard"),
        ("driver", "me@here", "has left the keyboard"),
    ]
    assert kinds((stopped, changed(stopped, watchers=2))) == [("watcher", "2 look on")]


def test_what_a_terminal_would_obey_is_escaped_and_old_events_are_forgotten() -> None:
    line = TimeLine()
    assert line.note("asked", "eval '\x1b[2J'", 1.0).text == "eval '\\x1b[2J'"
    for number in range(MAX_EVENTS + 5):
        line.note("asked", str(number), 1.0)
    assert len(line.events) == MAX_EVENTS
    assert line.events[-1].number == MAX_EVENTS + 6
