"""What an agent can't mean is refused field by field, where a message is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dbg_wire import messages
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    MAX_ANCESTORS,
    Finding,
    Greet,
    Kind,
    RankReport,
    Sender,
    SessionInfo,
    StopInfo,
    answer_to,
)
from dbg_wire.records.ranks import Place, RankState
from dbg_wire.records.record import InvalidMessage, Record, checked
from tests.conftest import Approved
from tests.unit.broker.peers import registration


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("identity.key", ""),
        ("identity.key", "x" * 1001),
        ("identity.job", "a/b"),
        ("identity.host", "gpu\n"),
        ("identity.host", "x" * 201),
        ("identity.rank", -1),
        ("placement.world_size", 0),
        ("child", 0),
        ("ancestors", tuple(range(MAX_ANCESTORS + 1))),
        ("process.script", "x" * 4097),
        ("report", None),
    ],
)
def test_what_can_not_be_true_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidMessage, match=rf"register: .*{field}"):
        checked(registration(**{field.rpartition(".")[2]: value}))


@pytest.mark.parametrize("kind", [Kind.SILENT, Kind.LOST])
def test_an_answer_has_no_kind_that_is_the_brokers_word(kind: Kind) -> None:
    with pytest.raises(InvalidMessage, match=r"answer\.kind: (silent|lost) is no agent's"):
        answer_to(1, kind, "")


def test_a_guard_speaks_for_its_own_rank_alone(approved: Approved) -> None:
    said = registration()
    messages.Testimony(minor=0, key=said.identity.key, kind=Finding.STUCK, registration=said)
    with pytest.raises(InvalidMessage) as caught:
        messages.Testimony(minor=0, key="another", kind=Finding.STUCK, registration=said)
    approved(str(caught.value))
    with pytest.raises(InvalidMessage, match=r"testimony: .*<= 64 - at `\$\.signal`"):
        checked(messages.Testimony(minor=0, key=said.identity.key, kind=Finding.FATAL, signal=65))


def test_no_rank_says_that_it_is_lost() -> None:
    with pytest.raises(InvalidMessage, match=r"rankreport\.state: lost"):
        registration(report=RUNNING.replace(state=RankState.LOST))


@pytest.mark.parametrize("name", ["", "x" * 201, "me\x1b[31m", "me\n@h", "me\u202e"])
def test_names_that_act_on_terminals_are_refused(name: str) -> None:
    with pytest.raises(InvalidMessage, match=r"greet.*name"):
        checked(Greet(minor=0, release="1", name=name))


RUNNING = RankReport(state=RankState.RUNNING)
WHERE = Place(file="/home/me/train.py", line=41, function="step")


def stop(number: int = 1, reason: str = "breakpoint", age: float = 0.25) -> StopInfo:
    return StopInfo(number=number, reason=reason, where=WHERE, age=age, thread="MainThread")


def session(number: int = 1, engine: str = "pudb", rows: int = 24) -> SessionInfo:
    return SessionInfo(number=number, engine=engine, rows=rows, columns=80)


def running(**changes: object) -> RankReport:
    return RankReport(state=RankState.RUNNING, **changes)  # type: ignore[arg-type] # what is tested


@pytest.mark.parametrize(
    "make",
    [
        lambda: RankReport(state=RankState.LOST),
        lambda: running(applied=-1),
        lambda: running(generation=2**32),
        lambda: stop(age=-0.1),
        lambda: stop(age=float("nan")),
        lambda: stop(reason="\x1b[2J"),
        lambda: Place(file="f", line=-1, function="f"),
        lambda: Place(file="\ud800", line=1, function="f"),
        lambda: session(engine="a b"),
        lambda: session(number=2**32),
    ],
)
def test_what_can_not_be_true_is_named_report(approved: Approved, make: Callable[[], Record]) -> None:
    with pytest.raises(InvalidMessage) as caught:
        checked(make())
    approved(str(caught.value))


@pytest.mark.parametrize(
    "report",
    [
        '{"state":"lost"}',
        '{"state":"running","stop":7}',
        '{"state":"stopped","stop":{"number":1,"reason":"step","where":{"file":"f","line":-1,"function":"f"}}}',
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
