"""What a peer claims is checked field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbg_broker.ranks.claims import MAX_ANCESTORS, check_attach, check_greet, check_register, check_report
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_CONDITION
from dbg_wire.messages import Greet, RankReport, SessionInfo
from dbg_wire.ranks import Breakpoint, Place, RankState
from tests.broker.peers import RUNNING, STOP, STOPPED, attach, registration


def test_what_ranks_say_passes() -> None:
    check_register(registration(local_rank=None, world_size=None, child=3, ancestors=()))
    check_report(RUNNING)
    check_report(replace(RUNNING, user_breakpoints=(SET, replace(SET, condition=None)) * (MAX_BREAKPOINTS // 2)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", ""),
        ("key", "a b"),
        ("key", "x" * 1001),
        ("job", ""),
        ("job", "a/b"),
        ("run", "0:0"),
        ("host", "gpu\n"),
        ("host", "gpü"),
        ("host", "x" * 201),
        ("release", "1 2"),
        ("python", ""),
        ("rank", -1),
        ("rank", 10**12),
        ("local_rank", -1),
        ("world_size", 0),
        ("child", 0),
        ("pid", 0),
        ("ancestors", tuple(range(MAX_ANCESTORS + 1))),
        ("ancestors", (-1,)),
        ("script", "x" * 4097),
        ("minor", -1),
    ],
)
def test_what_can_not_be_true_is_named(field: str, value: Any) -> None:
    with pytest.raises(PeerError, match=rf"register\.{field}"):
        check_register(registration(**{field: value}))


SET = Breakpoint(file="/home/me/train.py", line=44, condition="loss > 9")
SESSION = SessionInfo(number=1, engine="pudb", rows=24, columns=80)


@pytest.mark.parametrize(
    ("report", "field"),
    [
        (RankReport(state=RankState.LOST), "report.state"),
        (replace(RUNNING, queued=-1), "report.queued"),
        (replace(RUNNING, applied=-1), "report.applied"),
        (replace(RUNNING, generation=2**32), "report.generation"),
        (replace(STOPPED, stop=replace(STOP, number=-1)), "report.stop.number"),
        (replace(STOPPED, stop=replace(STOP, age=-0.1)), "report.stop.age"),
        (replace(STOPPED, stop=replace(STOP, age=1e12)), "report.stop.age"),
        (replace(STOPPED, stop=replace(STOP, reason="\x1b[2J")), "report.stop.reason"),
        (replace(STOPPED, stop=replace(STOP, where=Place(file="f", line=-1, function="f"))), "report.stop.where.line"),
        (replace(STOPPED, stop=replace(STOP, where=Place(file="f" * 5000, line=1, function="f"))), "where.file"),
        (replace(STOPPED, session=replace(SESSION, engine="a b")), "report.session.engine"),
        (replace(STOPPED, session=replace(SESSION, number=2**32)), "report.session.number"),
        (replace(STOPPED, session=replace(SESSION, rows=-1)), "report.session.rows"),
        (replace(RUNNING, user_breakpoints=(SET,) * (MAX_BREAKPOINTS + 1)), "report.user_breakpoints has 101 elements"),
        (replace(RUNNING, user_breakpoints=(replace(SET, file="train.py"),)), "report.user_breakpoints.file"),
        (replace(RUNNING, user_breakpoints=(replace(SET, file="/" * 5000),)), "report.user_breakpoints.file"),
        (replace(RUNNING, user_breakpoints=(replace(SET, line=0),)), "report.user_breakpoints.line"),
        (
            replace(RUNNING, user_breakpoints=(replace(SET, condition="x" * (MAX_CONDITION + 1)),)),
            "report.user_breakpoints.condition",
        ),
    ],
)
def test_reports_that_can_not_be_true_are_named(report: RankReport, field: str) -> None:
    with pytest.raises(PeerError, match=field.replace(".", r"\.")):
        check_report(report)


@pytest.mark.parametrize("name", ["", "x" * 201, "me\x1b[31m", "me\n@h", "me\u202e"])
def test_names_that_act_on_terminals_are_refused(name: str) -> None:
    with pytest.raises(PeerError, match=r"greet\.name"):
        check_greet(Greet(minor=0, release="1", name=name))


def test_names_of_people_pass() -> None:
    check_greet(Greet(minor=0, release="1", name="josé müller@login1"))


def test_attach_is_checked() -> None:
    check_attach(attach("k", resume=4, engine="pdb"))
    with pytest.raises(PeerError, match=r"attach\.resume"):
        check_attach(attach("k", resume=-1))
    with pytest.raises(PeerError, match=r"attach\.engine"):
        check_attach(attach("k", engine="\x1b"))
    with pytest.raises(PeerError, match=r"attach\.fallback_engine"):
        check_attach(attach("k", fallback_engine="\x1b"))
