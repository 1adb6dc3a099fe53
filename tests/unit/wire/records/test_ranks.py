"""A listed rank on the wire and in JSON, and how its end is put into words."""

from __future__ import annotations

import json

import pytest

from dbg_wire.codec import decode, encode
from dbg_wire.messages import Change, Sender
from dbg_wire.records.ranks import (
    DIED,
    NO_STOP,
    ListedEnd,
    RankState,
    describe_exit,
    exit_state,
    fatal_error,
    rank_document,
)
from tests.unit.client.fake_broker import make_rank


@pytest.mark.parametrize(
    ("status", "detail", "short", "long"),
    [
        (0, "", "exited with status 0", ""),
        (1, "ValueError: x", "exited with status 1", ""),
        (-9, "SIGKILL", "killed by SIGKILL", ""),
        (-50, "signal 50; core likely at /x", "killed by signal 50", ""),
        (None, "", "exited", ""),
        (-15, "SIGTERM from `timeout 60`; core", "killed by SIGTERM", "killed by SIGTERM from `timeout 60`"),
        (-9, "SIGKILL likely from x", "killed by SIGKILL", "killed by SIGKILL likely from x"),
        (-9, "SIGKILL from a\x1b[2J", "killed by SIGKILL", "killed by SIGKILL from a\\x1b[2J"),
    ],
)
def test_an_end_says_who_ended_it_if_that_is_known(status: int | None, detail: str, short: str, long: str) -> None:
    rank = make_rank(0, state=RankState.EXITED, reason=None, exit=status, detail=detail)
    assert exit_state(rank) == short
    assert describe_exit(rank) == (long or short)


FLAT = (
    "key address job run host rank local_rank world_size child pid script directory state reason where engine queued"
    " since driver watchers exit detail coordinates driver_silent limit limit_seconds waits_in release python stop"
    " passed name will_stop"
)


def test_a_rank_is_one_flat_object_in_json() -> None:
    rank = make_rank(5, stop=3, driver="me@h1", driver_silent=True, watchers=2, detail="it rings", limit="it rings")
    document = json.loads(json.dumps(rank_document(rank)))
    assert " ".join(document) == FLAT
    assert [document[name] for name in ("rank", "pid", "stop", "driver", "watchers")] == [5, 8805, 3, "me@h1", 2]
    assert document["where"] == {"file": "/home/me/train.py", "line": 41, "function": "step"}
    assert (document["state"], document["coordinates"], document["exit"]) == ("stopped", [], None)


def test_how_a_rank_has_ended_stands_before_its_last_stop() -> None:
    rank = make_rank(5, detail="it rings", limit="it rings", limit_seconds=3.0).replace(state=RankState.EXITED)
    assert (rank.reason, rank.detail, rank.limit, rank.limit_seconds) == ("breakpoint", "it rings", "it rings", 3.0)
    ended = rank.replace(end=ListedEnd(died=True, detail="SIGKILL"))
    assert (ended.reason, ended.detail, ended.limit, ended.limit_seconds) == (DIED, "SIGKILL", "", None)


def test_what_has_its_usual_value_is_not_sent() -> None:
    rank = make_rank(5, state=RankState.RUNNING, where=None, reason=None)
    told = Change(rank=rank.replace(halt=NO_STOP))
    assert set(json.loads(encode(told))["rank"]) == {"identity", "process", "placement", "address", "state", "since"}
    assert decode(encode(told), Sender.BROKER) == told


def test_an_exception_is_told_whole() -> None:
    told = "RuntimeError: expected 3 shards; got 2"
    assert fatal_error(make_rank(0, state=RankState.EXITED, reason=None, exit=1, detail=told)) == told
