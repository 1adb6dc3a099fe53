"""What can't be true of a rank is refused field by field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dbg_wire.codec import decode
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_CONDITION, MAX_LINE_TEXT
from dbg_wire.messages import RankReport, Sender, SessionInfo, StopInfo
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.ranks import Breakpoint, Place, RankState
from dbg_wire.records.record import Record, checked
from tests.conftest import Approved

RUNNING = RankReport(state=RankState.RUNNING)
WHERE = Place(file="/home/me/train.py", line=41, function="step")
SET = Breakpoint(file="/home/me/train.py", line=44, condition="loss > 9")


def stop(number: int = 1, reason: str = "breakpoint", age: float = 0.25) -> StopInfo:
    return StopInfo(number=number, reason=reason, where=WHERE, age=age, thread="MainThread")


def session(number: int = 1, engine: str = "pudb", rows: int = 24) -> SessionInfo:
    return SessionInfo(number=number, engine=engine, rows=rows, columns=80)


def running(**changes: object) -> RankReport:
    return RankReport(state=RankState.RUNNING, **changes)  # type: ignore[arg-type] # what is tested


def test_what_ranks_say_passes() -> None:
    conditional = (SET, Breakpoint(file="/f", line=1)) * (MAX_BREAKPOINTS // 2)
    RankReport(state=RankState.STOPPED, stop=stop(), session=session(), user_breakpoints=conditional)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RankReport(state=RankState.LOST),
        lambda: running(queued=-1),
        lambda: running(applied=-1),
        lambda: running(generation=2**32),
        lambda: stop(number=-1),
        lambda: stop(age=-0.1),
        lambda: stop(age=1e12),
        lambda: stop(age=float("nan")),
        lambda: stop(reason="\x1b[2J"),
        lambda: Place(file="f", line=-1, function="f"),
        lambda: Place(file="f" * 5000, line=1, function="f"),
        lambda: Place(file="\ud800", line=1, function="f"),
        lambda: session(engine="a b"),
        lambda: session(number=2**32),
        lambda: session(rows=-1),
        lambda: running(user_breakpoints=(SET,) * 101),
        lambda: Breakpoint(file="train.py", line=1),
        lambda: Breakpoint(file="/" * 5000, line=1),
        lambda: Breakpoint(file="/f", line=0),
        lambda: Breakpoint(file="/f", line=1, condition="x" * (MAX_CONDITION + 1)),
        lambda: Breakpoint(file="/f", line=1, text="x" * (MAX_LINE_TEXT + 1)),
    ],
)
def test_what_can_not_be_true_is_named(approved: Approved, make: Callable[[], Record]) -> None:
    with pytest.raises(InvalidMessage) as caught:
        checked(make())
    approved(str(caught.value))


@pytest.mark.parametrize(
    "report",
    [
        '{"state":"lost"}',
        '{"state":"running","stop":7}',
        '{"state":"stopped","stop":{"number":1,"reason":"step","where":{"file":"f","line":-1,"function":"f"}}}',
        '{"state":"running","user_breakpoints":[{"file":"/f","line":1},{"file":"f","line":1}]}',
    ],
)
def test_what_is_wrong_in_a_frame_is_named_from_the_message_on(approved: Approved, report: str) -> None:
    with pytest.raises(PeerError) as caught:
        decode(f'{{"type":"report","report":{report}}}', Sender.AGENT)
    approved(str(caught.value))


def test_a_number_without_a_fraction_is_an_age() -> None:
    frame = (
        '{"type":"report","report":{"state":"stopped","stop":{"number":1,"reason":"breakpoint",'
        '"where":{"file":"f","line":1,"function":"f"},"age":3,"thread":""}}}'
    )
    age = decode(frame, Sender.AGENT).report.stop.age  # type: ignore[attr-defined] # a report
    assert (age, type(age)) == (3.0, float)
