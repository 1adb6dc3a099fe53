"""A verdict on a job that may be slow: its kind, its sentence and its figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dbg_client.hang.slow.lateness import Lateness
from dbg_client.hang.verdict import CULPRIT_STATUS, UNKNOWN_STATUS, Diagnosis

NOBODY_STATUS = 0
"""Exit status where no rank is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowVerdict(Diagnosis):
    """What holds one job up, or that nothing does. It is sure by clocks, and likely by looks or by times of a host.

    ``ranks`` are late, ``by`` so many seconds in ``times`` of ``count`` collectives; ``lost`` is the part of the time
    that this costs, ``step`` the seconds of a step and ``step_without`` those that it would take.
    """

    kind: Lateness
    times: int | None = None
    count: int | None = None
    by: float | None = None
    lost: float | None = None
    step: float | None = None
    step_without: float | None = None


def exit_status(verdicts: Iterable[SlowVerdict]) -> int:
    """Return 1 if a rank is named, 6 if it can't be told of any job whether one is late, 0 else."""
    kinds = {verdict.kind for verdict in verdicts}
    if Lateness.LATE in kinds:
        return CULPRIT_STATUS
    return NOBODY_STATUS if kinds & {Lateness.EVEN, Lateness.UNEVEN} else UNKNOWN_STATUS


def duration(seconds: float) -> str:
    """Return seconds as ``310 ms``, ``2.1 ms`` or ``1.9 s``."""
    return f"{_digits(seconds)} s" if seconds >= 1 else f"{_digits(1000 * seconds)} ms"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"
