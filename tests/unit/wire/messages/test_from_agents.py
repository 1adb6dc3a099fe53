"""What an agent can't mean is refused field by field, where a message is read."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_wire import messages
from dbg_wire.messages import MAX_ANCESTORS, Answer, Finding, Kind, Register
from dbg_wire.records.bounds import InvalidMessage
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import checked
from tests.conftest import Approved
from tests.support.rank_infos import record_of
from tests.unit.wire.messages.test_report import RUNNING


def registration(**changes: Any) -> Register:
    said: dict[str, Any] = {
        "minor": 0,
        "release": "0.1.0",
        "key": "4711.0/0.0/gpu013:0/8800",
        "job": "4711.0",
        "run": "0.0",
        "host": "gpu013",
        "rank": 0,
        "local_rank": 0,
        "world_size": 8,
        "child": None,
        "pid": 8800,
        "ancestors": (8790,),
        "kernel": "another/1",
        "script": "/home/me/train.py",
        "directory": "/home/me",
        "python": "3.11.7",
        "report": RUNNING,
    }
    return record_of(Register, {**said, **changes})


def test_what_ranks_say_passes() -> None:
    checked(registration())
    checked(registration(local_rank=None, world_size=None, child=3, ancestors=()))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("identity.key", ""),
        ("identity.key", "a b"),
        ("identity.key", "x" * 1001),
        ("identity.job", ""),
        ("identity.job", "a/b"),
        ("identity.run", "0:0"),
        ("identity.host", "gpu\n"),
        ("identity.host", "gpü"),
        ("identity.host", "x" * 201),
        ("process.release", "1 2"),
        ("process.python", ""),
        ("identity.rank", -1),
        ("identity.rank", 10**12),
        ("placement.local_rank", -1),
        ("placement.world_size", 0),
        ("child", 0),
        ("process.pid", -1),
        ("ancestors", tuple(range(MAX_ANCESTORS + 1))),
        ("ancestors", (-1,)),
        ("process.script", "x" * 4097),
        ("minor", -1),
        ("report", None),
    ],
)
def test_what_can_not_be_true_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidMessage, match=rf"register\.{field}"):
        checked(registration(**{field.rpartition(".")[2]: value}))


@pytest.mark.parametrize("kind", [Kind.SILENT, Kind.LOST])
def test_an_answer_has_no_kind_that_is_the_brokers_word(kind: Kind) -> None:
    with pytest.raises(InvalidMessage, match=r"answer\.kind: (silent|lost) is no agent's"):
        Answer(request=1, kind=kind, text="")


def test_a_guard_speaks_for_its_own_rank_alone(approved: Approved) -> None:
    said = registration()
    messages.Testimony(minor=0, key=said.identity.key, kind=Finding.STUCK, registration=said)
    with pytest.raises(InvalidMessage) as caught:
        messages.Testimony(minor=0, key="another", kind=Finding.STUCK, registration=said)
    approved(str(caught.value))
    with pytest.raises(InvalidMessage, match=r"testimony\.signal is 65, above 64"):
        checked(messages.Testimony(minor=0, key=said.identity.key, kind=Finding.FATAL, signal=65))


def test_no_rank_says_that_it_is_lost() -> None:
    with pytest.raises(InvalidMessage, match=r"rankreport\.state: lost"):
        registration(report=RUNNING.replace(state=RankState.LOST))
