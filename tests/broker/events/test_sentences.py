"""Sentences of events for stops without a place, for one other rank, and for signals without a name."""

from __future__ import annotations

import pytest

from dbg_broker.events import sentences
from dbg_broker.events.event import EventKind
from dbg_broker.events.sentences import Seen
from dbg_wire.messages import Hang
from dbg_wire.ranks import Place
from tests.broker.events.test_occasions import ended, stopped


def test_a_stock_debugger_that_names_no_place_is_told_without_one() -> None:
    seen = [Seen(stopped(number, where=Place(file="", line=0, function=""))) for number in range(2)]
    event = sentences.of_ranks(EventKind.STOP, seen, 1.0)
    assert event.sentence == "gpu013:0 of job 4711.0 stopped, and 1 other rank"


@pytest.mark.parametrize(
    ("left", "shown"), [(28800.0, "480 min"), (119.4, "119 s"), (120.0, "2 min"), (0.0, "0 s"), (None, "0 s")]
)
def test_the_time_left_is_told_in_minutes_or_seconds(left: float | None, shown: str) -> None:
    event = sentences.of_ranks(EventKind.LEASE, [Seen(stopped(lease=28800.0, lease_seconds=left))], 1.0)
    assert event.sentence.endswith(f"goes on by itself in {shown}")


def test_a_rank_that_is_gone_names_the_list_as_next_step_and_its_signal() -> None:
    event = sentences.of_ranks(EventKind.CRASH, [Seen(ended(0, -50))], 1.0)
    assert event.sentence == "gpu013:0 of job 4711.0 was killed by signal 50: ValueError: bad"
    assert event.next == "dbg-attach --list --all"


def test_a_hang_without_a_command_names_why() -> None:
    assert sentences.hang(Hang(job="j", kind="unknown", sentence="no cause is seen"), 1.0).next == "dbg-attach why"
