"""What an agent can't mean is refused field by field, where a message is read."""

from __future__ import annotations

import pytest

from dbg_wire import messages
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Finding,
    Greet,
    Kind,
    RankReport,
    Sender,
    answer_to,
)
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import InvalidMessage, checked
from tests.conftest import Approved
from tests.unit.broker.peers import registration


@pytest.mark.parametrize("kind", [Kind.SILENT, Kind.LOST])
def test_answer_of_an_agent_cannot_have_a_kind_of_the_broker(kind: Kind) -> None:
    with pytest.raises(InvalidMessage, match=r"answer\.kind: (silent|lost) is not sent by agents"):
        answer_to(1, kind, "")


def test_guard_reports_only_its_own_rank(approved: Approved) -> None:
    registered = registration()
    messages.GuardReport(minor=0, key=registered.identity.key, kind=Finding.STUCK, registration=registered)
    with pytest.raises(InvalidMessage) as caught:
        messages.GuardReport(minor=0, key="another", kind=Finding.STUCK, registration=registered)
    approved(str(caught.value))
    with pytest.raises(InvalidMessage, match=r"guard_report: .*<= 64 - at `\$\.signal`"):
        checked(messages.GuardReport(minor=0, key=registered.identity.key, kind=Finding.FATAL, signal=65))


def test_rank_cannot_report_itself_as_lost() -> None:
    with pytest.raises(InvalidMessage, match=r"rankreport\.state: lost"):
        registration(report=RUNNING.replace(state=RankState.LOST))


@pytest.mark.parametrize("name", ["", "x" * 201, "me\x1b[31m", "me\n@h", "me\u202e"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidMessage, match=r"greet.*name"):
        checked(Greet(minor=0, release="1", name=name))


RUNNING = RankReport(state=RankState.RUNNING)


@pytest.mark.parametrize(
    "report",
    [
        '{"state":"lost"}',
        '{"state":"running","stop":7}',
        '{"state":"stopped","stop":{"number":1,"reason":"step","where":{"file":"f","line":-1,"function":"f"}}}',
    ],
)
def test_error_in_a_frame_is_named_with_its_path(approved: Approved, report: str) -> None:
    with pytest.raises(PeerError) as caught:
        decode(f'{{"type":"report","report":{report}}}', Sender.AGENT)
    approved(str(caught.value))


def test_integer_is_accepted_as_age() -> None:
    frame = (
        '{"type":"report","report":{"state":"stopped","stop":{"number":1,"reason":"breakpoint",'
        '"where":{"file":"f","line":1,"function":"f"},"age":3,"thread":""}}}'
    )
    age = decode(frame, Sender.AGENT).report.stop.age  # type: ignore[attr-defined] # a report
    assert (age, type(age)) == (3.0, float)
