"""Comparison of replicated tensors between the ranks of a run, by digests.

Replicas are compared only if all their ranks are connected to this broker: a cluster's brokers do not exchange digests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_wire.messages import Differs, Digests
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.numbers import Origin, ReplicaDigest, Suspect, WrongNumber
from dbg_wire.records.record import clamp

MAX_WAITING = 200_000
"""Maximum number of digests that wait for other ranks: 30 MB. 20,000 ranks send about 60,000 at each step."""

MAX_SETS = 20_000
"""Maximum number of sets of replicas whose last equal step is kept: 20,000 ranks hold fewer. Also the limit of
runs that wait for an answer."""

DROPPED = -1
"""In place of a step: the tensors were assumed to be replicas, and are not."""

_Set = tuple[RunName, ReplicaDigest]
"""Run, and the tensors that are compared, as a record without a digest."""


class Replicas:
    """Receiver of the digests of all runs that compare replicas. ``send`` sends a message to a rank by its key."""

    def __init__(self, send: Callable[[str, Differs], object]) -> None:
        self._send = send
        self._waiting: dict[_Set, dict[int, tuple[int, str]]] = {}
        """Digest and key of each rank, for each step of a set."""
        self._size = 0
        """Number of digests that wait."""
        self._equal: dict[_Set, int] = {}
        """Last step at which each set was equal. The record of the set has step 0."""
        self._odd: dict[RunName, str] = {}
        """Key of the rank that is told about its run's first difference. Until then, nothing else is compared."""

    def digests(self, rank: RankRecord, message: Digests) -> None:
        """Compare a rank's digests with those of other ranks. At a difference, ask a rank for those of each tensor."""
        for digest in message.rows:
            if rank.run not in self._odd:
                self._compare(rank, digest)

    def differs(self, rank: RankRecord, message: Differs) -> None:
        """Forward the digest of each tensor to the rank that differs. Its run is compared again."""
        self._send(self._odd.pop(rank.run, ""), message)

    def _compare(self, rank: RankRecord, digest: ReplicaDigest) -> None:
        this = rank.run, digest.replace(digest=0)
        sent = self._waiting.setdefault(this, {})
        self._size += rank.identity.rank not in sent
        sent[rank.identity.rank] = digest.digest, rank.key
        if len(sent) >= digest.group.size:
            self._size -= len(self._waiting.pop(this))
            self._judge(rank.run, digest, sent)
        while self._size > MAX_WAITING:
            self._size -= len(self._waiting.pop(next(iter(self._waiting))))

    def _judge(self, run: RunName, digest: ReplicaDigest, sent: dict[int, tuple[int, str]]) -> None:
        """Compare the digests of all ranks of a set. The smallest set of equal digests is the wrong one."""
        if len(self._equal) > MAX_SETS:
            del self._equal[next(iter(self._equal))]
        ranks_by_digest: defaultdict[int, list[int]] = defaultdict(list)
        for number in sorted(sent):
            ranks_by_digest[sent[number][0]].append(number)
        this = digest.replace(step=0, digest=0)
        until = self._equal.get((run, this), 0)
        if len(ranks_by_digest) == 1:
            self._equal[run, this] = DROPPED if until == DROPPED else digest.step
            return
        # A gradient shows nothing about the assumption: a parameter that is not reduced is the fault to be found.
        basis = this.replace(kind=Suspect.PARAMETER) if this.kind is Suspect.GRADIENT else this
        if this.group.assumed and self._equal.setdefault((run, basis), DROPPED) == DROPPED:
            return
        # In a tie, the set with the lowest rank is the right one.
        odd, *_, right = sorted(ranks_by_digest.values(), key=lambda numbers: (len(numbers), -numbers[0]))
        self._odd[run] = sent[odd[0]][1]
        if len(self._odd) > MAX_SETS:
            del self._odd[next(iter(self._odd))]
        others, step, suspect = format_ranks(sent.keys() - set(odd)), digest.step, digest.kind
        wrong = clamp(
            WrongNumber, step=step, suspect=suspect, name="", origin=Origin.DIFFERS, others=others, equal_until=until
        )
        self._send(sent[right[0]][1], Differs(group=digest.group, odd=odd[0], wrong=wrong))
