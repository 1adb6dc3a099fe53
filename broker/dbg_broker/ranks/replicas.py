"""Comparison of replicated tensors between the ranks of a run, by digests. Pure.

Replicas are compared only if all their ranks are connected to this broker: a cluster's brokers do not exchange digests.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_wire.messages import Differs
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.numbers import ReplicaDigest, Suspect
from dbg_wire.records.record import clamp

MAX_WAITING = 200_000
"""Maximum number of digests of a run that wait for other ranks: 30 MB. 20,000 ranks send about 60,000 at each step."""

MAX_SETS = 20_000
"""Maximum number of sets of replicas of a run whose last equal step is kept: 20,000 ranks hold fewer."""

DROPPED = -1
"""In place of a step: the tensors were assumed to be replicas, and are not."""

_Set = tuple[Suspect, str, int]
"""Kind, ranks and names of the tensors that are compared."""


@dataclass(slots=True)
class _Run:
    """Digests of one run that wait for other ranks, and the last step at which each set of replicas was equal."""

    waiting: dict[tuple[int, _Set], dict[int, tuple[str, str]]] = field(default_factory=dict)
    """Digest and key of each rank, by step and set."""
    size: int = 0
    equal: dict[_Set, int] = field(default_factory=dict)
    odd: str = ""
    """Key of the rank that stops. Nothing is compared after the first difference."""


class Replicas:
    """Digests of all runs that compare replicas. The length is the number of runs."""

    def __init__(self) -> None:
        self._runs: defaultdict[RunName, _Run] = defaultdict(_Run)
        self._run_of: dict[str, RunName] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def begin(self, rank: RankRecord) -> None:
        """Begin a new watch of a rank: forget its former digests, and compare again after a difference."""
        run = self._runs[rank.run]
        run.odd = ""
        run.equal.clear()
        for sent in run.waiting.values():
            run.size -= sent.pop(rank.identity.rank, None) is not None

    def compare(self, rank: RankRecord, digest: ReplicaDigest) -> tuple[str, Differs] | None:
        """Compare a rank's digest with the digests of the other ranks.

        Return the run's first difference, and the key of the rank that is asked for the digest of each tensor.
        """
        run, this = self._runs[rank.run], (digest.kind, digest.group, digest.tensors)
        self._run_of[rank.key] = rank.run
        if run.odd:
            return None
        sent = run.waiting.setdefault((digest.step, this), {})
        run.size += rank.identity.rank not in sent
        sent[rank.identity.rank] = digest.digest, rank.key
        if len(sent) >= digest.size:
            run.size -= len(run.waiting.pop((digest.step, this)))
            return _judge(run, this, digest, sent)
        while run.size > MAX_WAITING:
            run.size -= len(run.waiting.pop(next(iter(run.waiting))))
        return None

    def odd(self, run: RunName) -> str:
        """Return the key of the rank that differs from others, empty if there is none."""
        return self._runs[run].odd if run in self._runs else ""

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed, and what its run has compared."""
        if (run := self._run_of.pop(key, None)) is not None:
            self._runs.pop(run, None)


def _judge(
    run: _Run, this: _Set, digest: ReplicaDigest, sent: dict[int, tuple[str, str]]
) -> tuple[str, Differs] | None:
    """Compare the digests of all ranks of a set. The smallest set of equal digests is the wrong one."""
    equal: defaultdict[str, list[int]] = defaultdict(list)
    for number in sorted(sent):
        equal[sent[number][0]].append(number)
    # A gradient shows nothing about the assumption: a parameter that is not reduced is the fault to be found.
    basis = this if digest.kind is not Suspect.GRADIENT else (Suspect.PARAMETER, *this[1:])
    until = run.equal.get(this, 0)
    if len(equal) > 1 and (not digest.assumed or run.equal.get(basis, DROPPED) != DROPPED):
        # In a tie, the set with the lowest rank is the right one.
        odd, *_, right = sorted(equal.values(), key=lambda numbers: (len(numbers), -numbers[0]))
        run.odd = sent[odd[0]][1]
        run.waiting.clear()
        run.size = 0
        others = format_ranks(sent.keys() - set(odd))
        message = clamp(Differs, digest=digest, odd=odd[0], others=others, equal_until=until)
        return sent[right[0]][1], message
    if until != DROPPED and (len(equal) == 1 or this == basis):
        if this not in run.equal and len(run.equal) >= MAX_SETS:
            del run.equal[next(iter(run.equal))]
        run.equal[this] = digest.step if len(equal) == 1 else DROPPED
    return None
