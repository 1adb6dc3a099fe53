"""What each rank has told of why it does not go on, beside what the broker knows of it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.roll_call import Run
from dbg_wire.messages import RankAnswer
from dbg_wire.records.evidence import Evidence, WaitKind, evidence_in
from dbg_wire.records.ranks import LIVE_STATES, RankInfo
from dbg_wire.tables.collectives import collective_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEvidence:
    """One rank, its answer, and the evidence in it; None if the answer holds none."""

    rank: RankInfo
    answer: RankAnswer
    evidence: Evidence | None = None

    @property
    def tells_collectives(self) -> bool:
        """Return whether a library of the rank has told of its groups."""
        return self.evidence is not None and bool(self.evidence.groups or self.evidence.collectives)

    @property
    def is_in_collective(self) -> bool:
        """Return whether the main thread is in a collective, a send or a receive, or in another call of their library.

        Some libraries keep a processor busy while they wait there.
        """
        waits = self.evidence.waits if self.evidence is not None else ()
        is_told = any(wait.is_main and wait.kind is WaitKind.COLLECTIVE for wait in waits)
        return is_told or bool(collective_of(self.answer.frames))

    def would_tell_of(self, library: str) -> bool:
        """Return whether a call in a group of this library would be told: mpi4py tells nothing while there is none."""
        sources = self.evidence.sources if self.evidence is not None else ()
        return self.tells_collectives or any(source.library == library for source in sources)


Roster = Mapping[int, RankEvidence]
"""The ranks of one run by their numbers."""


def read_evidence(ranks: Sequence[RankInfo], answers: Sequence[RankAnswer]) -> list[RankEvidence]:
    """Return each rank with its answer."""
    return [
        RankEvidence(rank=rank, answer=answer, evidence=evidence_in(answer.rows))
        for rank, answer in zip(ranks, answers, strict=True)
    ]


def rosters(everybody: Iterable[RankEvidence]) -> dict[Run, Roster]:
    """Return the ranks of each run; of several processes of one number the one that lives, or else the newest.

    Children and stock debuggers are left out: they are in no process group of their rank's number.
    """
    found: defaultdict[Run, dict[int, RankEvidence]] = defaultdict(dict)
    for one in everybody:
        rank = one.rank
        if rank.child is None and not rank.is_classic:
            roster = found[rank.job, rank.run]
            if rank.rank not in roster or _currency(one) > _currency(roster[rank.rank]):
                roster[rank.rank] = one
    return {run: dict(sorted(roster.items())) for run, roster in sorted(found.items())}


def _currency(one: RankEvidence) -> tuple[bool, float, str]:
    return one.rank.state in LIVE_STATES, one.rank.since, one.rank.key
