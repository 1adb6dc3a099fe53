"""What is said of a job that may hang: the kinds of verdicts, and one verdict. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

MAX_EVIDENCE = 12
"""Lines of evidence of one verdict: more ranks than that are told in groups."""


class VerdictKind(str, enum.Enum):
    """What is wrong, the worst first; the order is that of the verdicts in an answer."""

    MISSING = "missing"
    """A rank has not come to a collective in which others wait."""
    ORDER = "order"
    """Ranks are in different collectives where they should be in one."""
    MISMATCH = "mismatch"
    """Ranks are in one collective with other shapes, types or sizes."""
    PARTNER = "partner"
    """A receive whose peer does not send, or the reverse."""
    DEAD = "dead"
    ABSENT = "absent"
    """A rank has never connected."""
    SUSPENDED = "suspended"
    DEADLOCK = "deadlock"
    """Threads of a rank wait for each other, or ranks for what a rank in their collective holds."""
    STUCK = "stuck"
    """A rank is in C code that does not return."""
    WAITING = "waiting"
    """A rank waits for data, a file, a socket, another process, a lock, or a person."""
    DIFFERENT = "different"
    """Ranks run other files, packages, or environments than most."""
    UNKNOWN = "unknown"
    """It can't be told whether or why the job hangs."""
    BUSY = "busy"
    """The ranks move; nothing is wrong."""


HARMLESS = frozenset({VerdictKind.UNKNOWN, VerdictKind.BUSY})
"""Kinds that name no culprit."""

IN_COLLECTIVES = frozenset({VerdictKind.MISSING, VerdictKind.ORDER, VerdictKind.MISMATCH, VerdictKind.PARTNER})
"""Kinds that name a collective in which ranks wait."""

_BADNESS = {kind: number for number, kind in enumerate(VerdictKind)}

BUSY_STATUS, CULPRIT_STATUS, UNKNOWN_STATUS = 0, 1, 6
"""Exit statuses of ``why``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that is wrong with the ranks of one job, or that nothing is.

    ``ranks`` are those it is about, ``others`` those that wait for them. ``age`` is in seconds. ``evidence`` are lines
    below the sentence, ``next`` is the command to type now, and ``purpose`` what that does. ``is_certain`` says that
    another look would change nothing. With ``is_told`` an earlier verdict has said it, so people need not read it.
    """

    kind: VerdictKind
    job: str
    sentence: str
    ranks: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    group: str | None = None
    collective: str | None = None
    sequence: int | None = None
    age: float | None = None
    evidence: tuple[str, ...] = ()
    next: str | None = None
    purpose: str = ""
    is_certain: bool = True
    is_told: bool = False


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts by badness; of one kind the one with most ranks waiting first."""
    return sorted(verdicts, key=_order)


def exit_status(verdicts: Sequence[Verdict]) -> int:
    """Return 0 if all verdicts are busy, 1 if one names a culprit, 6 if it can't be told."""
    kinds = {verdict.kind for verdict in verdicts}
    if kinds - HARMLESS:
        return CULPRIT_STATUS
    return BUSY_STATUS if kinds == {VerdictKind.BUSY} else UNKNOWN_STATUS


def _order(verdict: Verdict) -> tuple[object, ...]:
    waiting = -len(verdict.others), -len(verdict.ranks)
    return _BADNESS[verdict.kind], *waiting, -(verdict.age or 0.0), verdict.job, verdict.ranks, verdict.sentence
