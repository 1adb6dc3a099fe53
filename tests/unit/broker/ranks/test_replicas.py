"""The broker names the first replicas that differ, and the rank whose replicas are the odd ones."""

from __future__ import annotations

import pytest

from dbg_broker.ranks import replicas
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.replicas import Replicas
from dbg_wire.messages import Differs
from dbg_wire.records.numbers import ReplicaDigest, Suspect
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import RUNNING, registration

G, P, B = Suspect.GRADIENT, Suspect.PARAMETER, Suspect.BUFFER

Sent = tuple[int, Suspect, str]
"""Step, kind, and the digest of each rank as one letter; a space for a rank that sends none."""


def rank(number: int, run: str = "0.0") -> RankRecord:
    entry, state = registration(number, run=run), RankState.RUNNING
    return RankRecord(registration=entry, report=RUNNING, state=state, child=None, since=0, heard=0, entered=0)


def compare(replicas: Replicas, sent: Sent, run: str = "0.0", *, assumed: bool = False) -> tuple[str, Differs] | None:
    """Let each rank send its digest, the last rank first. Return the difference that is found."""
    step, kind, letters = sent
    row = ReplicaDigest(step=step, kind=kind, group="all", size=len(letters), tensors=7, digest="", assumed=assumed)
    those = [(number, letter) for number, letter in enumerate(letters) if letter != " "][::-1]
    found = [replicas.compare(rank(number, run), row.replace(digest=letter)) for number, letter in those]
    return next(filter(None, found), None)


CASES: dict[str, tuple[list[Sent], bool, tuple[int, str, int, int] | None]] = {
    "equal": ([(1, G, "aaa"), (1, P, "bbb")], False, None),
    "minority": ([(1, G, "aaaa"), (2, G, "aaba")], False, (2, "0-1,3", 1, 0)),
    "tie": ([(9, P, "aa"), (10, P, "ab")], False, (1, "0", 9, 0)),
    "lowest rank is odd": ([(1, P, "baa")], False, (0, "1-2", 0, 1)),
    "all differ": ([(1, P, "abc")], False, (2, "0-1", 0, 0)),
    "two are odd": ([(1, P, "abbaa")], False, (1, "0,3-4", 0, 0)),
    "a rank is missing": ([(1, G, "ab "), (2, G, "a b")], False, None),
    "sharded parameters": ([(0, P, "ab"), (1, G, "cd"), (1, P, "aa"), (2, P, "ab")], True, None),
    "parameter without reduction": ([(0, P, "aa"), (1, G, "ab")], True, (1, "0", 0, 0)),
    "gradient without first parameter": ([(1, G, "ab")], True, None),
    "buffer that begins different": ([(1, B, "ab"), (2, B, "aa"), (3, B, "ab")], True, None),
    "buffer that drifts": ([(1, B, "aa"), (2, B, "aa"), (3, B, "ab")], True, (1, "0", 2, 0)),
}
"""Digests of a run, whether the replicas are assumed, and the result: odd rank, others, last equal step, asked rank."""


@pytest.mark.parametrize("name", list(CASES))
def test_the_odd_rank_is_named_at_the_first_difference(name: str) -> None:
    sent, assumed, expected = CASES[name]
    run = Replicas()
    *earlier, last = [compare(run, one, assumed=assumed) for one in sent]
    assert not any(earlier)
    assert (last and (last[1].odd, last[1].others, last[1].equal_until, last[0])) == (
        expected and (*expected[:3], rank(expected[3]).key)
    )
    assert run.odd(rank(0).run) == (rank(expected[0]).key if expected else "")


def test_runs_and_watches_are_apart_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Replicas()
    assert compare(runs, (1, G, "a ")) is compare(runs, (1, G, " b"), "0.1") is None
    assert compare(runs, (2, G, "ab")) is not None
    assert compare(runs, (3, G, "ab")) is None
    # A new watch of a rank compares again, without the rank's former digests.
    runs.begin(rank(0))
    assert compare(runs, (4, G, "a ")) is None
    runs.begin(rank(0))
    assert compare(runs, (4, G, " b")) is None
    assert compare(runs, (4, G, "c ")) is not None
    runs.forget(rank(0).key)
    assert len(runs) == 1

    monkeypatch.setattr(replicas, "MAX_WAITING", 4)
    assert not any(compare(runs, (step, G, "a ")) for step in range(5))
    assert compare(runs, (0, G, " b")) is None
    assert compare(runs, (4, G, " b")) is not None
