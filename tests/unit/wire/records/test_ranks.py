"""A listed rank on the wire and in JSON, and how its end is put into words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Change, Sender
from dbg_wire.records.ranks import (
    DIED,
    NO_STOP,
    SOON_SECONDS,
    WITHOUT_TRACEBACK,
    End,
    EndKind,
    Limit,
    LimitKind,
    RankState,
    show_left,
)
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


@pytest.mark.parametrize(
    ("end", "short", "long"),
    [
        (End(exit=0), "exited with status 0", ""),
        (End(exit=1, error="ValueError: x"), "exited with status 1", ""),
        (End(exit=-9), "killed by SIGKILL", ""),
        (End(exit=-50), "killed by signal 50", ""),
        (End(), "exited", ""),
        (End(kind=EndKind.DIED), "died", ""),
        (End(kind=EndKind.DIED, exit=3), "exited with status 3", f"exited with status 3 {WITHOUT_TRACEBACK}"),
        (End(exit=-9, cause="likely from x", note="it held"), "killed by SIGKILL", "killed by SIGKILL likely from x"),
        (End(exit=-9, cause="from a\x1b[2J"), "killed by SIGKILL", "killed by SIGKILL from a\\x1b[2J"),
    ],
)
def test_text_of_an_end_names_the_cause_if_known(end: End, short: str, long: str) -> None:
    assert end.state == short
    assert end.text == (long or short)


def test_end_of_a_rank_overrides_its_last_stop() -> None:
    rank = make_rank(5, error="ValueError: x", limit=Limit(kind=LimitKind.LEASE, seconds=3.0))
    assert (rank.reason, rank.detail, rank.limit_seconds) == ("breakpoint", f"ValueError: x; {rank.limit}", 3.0)
    ended = rank.replace(end=End(kind=EndKind.DIED, exit=-9), halt=rank.halt.replace(limit=None))
    assert (ended.reason, ended.detail, ended.limit, ended.limit_seconds) == (DIED, "SIGKILL", "", None)


@pytest.mark.parametrize("kind", LimitKind)
def test_each_kind_of_limit_is_shown_with_and_without_time_left(approved: Approved, kind: LimitKind) -> None:
    limits = [Limit(kind=kind, seconds=seconds, name="gloo").text for seconds in (1800.0, 119.0, 0.0)]
    approved("\n".join(limits))


@given(st.floats(0.5, 1e7))
def test_time_left_is_shown_to_within_half_a_unit(left: float) -> None:
    amount, unit = show_left(left).split()
    size = {"min": 60.0, "s": 1.0}[unit]
    assert abs(float(amount) * size - left) <= size / 2 + 1e-6
    assert (unit == "min") == (left >= SOON_SECONDS)


def test_default_values_are_not_sent() -> None:
    rank = make_rank(5, state=RankState.RUNNING, where=None, reason=None)
    change = Change(rank=rank.replace(halt=NO_STOP))
    assert set(json.loads(encode(change))["rank"]) == {"identity", "process", "placement", "address", "state", "since"}
    assert decode(encode(change), Sender.BROKER) == change
