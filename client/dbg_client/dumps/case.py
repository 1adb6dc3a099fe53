"""A case: all that the verdicts on a hang are made from, of ranks that were asked now or told it in files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbg_client.core.roll_call import Run
from dbg_client.hang.explain import Explanation, JobLook, explain
from dbg_client.hang.verdict import VerdictKind
from dbg_wire.records.evidence import CodePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What ranks told in some looks, and further lines for the worst verdict on a run.

    ``now`` is when the last look was made, in wall-clock seconds. ``parts`` are files, packages and variables.
    """

    looks: Sequence[JobLook]
    now: float
    parts: Mapping[Run, Mapping[int, Sequence[CodePart]]] = field(default_factory=dict)
    lines: Sequence[tuple[Run, Sequence[str]]] = ()

    def explanation(self) -> Explanation:
        """Return the verdicts."""
        found = explain(self.looks, self.now, self.parts)
        for run, lines in self.lines:
            found = with_lines(found, run, lines)
        return found


def with_lines(found: Explanation, run: Run, lines: Sequence[str]) -> Explanation:
    """Return the verdicts with these lines below the worst one on a run's job that is not busy."""
    verdicts = list(found.verdicts)
    for index, verdict in enumerate(verdicts):
        if verdict.job == run[0] and verdict.kind is not VerdictKind.BUSY:
            verdicts[index] = replace(verdict, evidence=(*verdict.evidence, *lines))
            break
    return replace(found, verdicts=tuple(verdicts))
