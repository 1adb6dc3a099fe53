"""The broker names the first replicas that differ, and the rank whose replicas are the odd ones."""

from __future__ import annotations

import pytest

from dbg_broker.ranks import replicas
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.replicas import Replicas
from dbg_wire.messages import Differs, Digests
from dbg_wire.records.numbers import ReplicaDigest, ReplicaGroup, Suspect
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import RUNNING, registration

G, P, B = Suspect.GRADIENT, Suspect.PARAMETER, Suspect.BUFFER

Sent = tuple[int, Suspect, str]
"""Step, kind, and the digest of each rank as one letter; a space for a rank that sends none."""


def rank(number: int, run: str = "0.0") -> RankRecord:
    entry, state = registration(number, run=run), RankState.RUNNING
    return RankRecord(registration=entry, report=RUNNING, state=state, child=None, since=0, heard=0, entered=0)


class Sending(Replicas):
    """Replicas that keep what they send: the keys of ranks, and messages."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Differs]] = []
        super().__init__(lambda key, message: self.sent.append((key, message)))


def compare(replicas: Sending, sent: Sent, run: str = "0.0", *, assumed: bool = False) -> tuple[str, Differs] | None:
    """Let each rank send its digest, the last rank first. Return the difference that is found."""
    step, kind, letters = sent
    group = ReplicaGroup(ranks="all", size=len(letters), assumed=assumed)
    row = ReplicaDigest(step=step, kind=kind, group=group, tensors=7, digest=0)
    those = [(number, letter) for number, letter in enumerate(letters) if letter != " "][::-1]
    for number, letter in those:
        replicas.digests(rank(number, run), Digests(rows=(row.replace(digest=ord(letter)),)))
    return replicas.sent.pop() if replicas.sent else None


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
    run = Sending()
    *earlier, last = [compare(run, one, assumed=assumed) for one in sent]
    assert not any(earlier)
    assert (last and (last[1].odd, last[1].wrong.others, last[1].wrong.equal_until, last[0])) == (
        expected and (*expected[:3], rank(expected[3]).key)
    )
    if last:
        run.differs(rank(0), last[1])
        assert run.sent == [(rank(last[1].odd).key, last[1])]


def test_runs_and_watches_are_apart_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Sending()
    assert compare(runs, (1, G, "a ")) is compare(runs, (1, G, " b"), "0.1") is None
    difference = compare(runs, (2, G, "ab"))
    assert difference is not None
    assert compare(runs, (3, G, "ab")) is None
    # After the rank is told about its difference, its run is compared again.
    runs.differs(rank(0), difference[1])
    assert runs.sent.pop() == (rank(1).key, difference[1])
    assert compare(runs, (4, G, "ab")) is not None
    runs.differs(rank(0), difference[1])
    runs.sent.clear()

    monkeypatch.setattr(replicas, "MAX_WAITING", 4)
    assert not any(compare(runs, (step, G, "a ")) for step in range(10, 15))
    assert compare(runs, (10, G, " b")) is None
    assert compare(runs, (14, G, " b")) is not None
