"""Tell the broker what ``why`` has found, for those whom it tells of events."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_wire.errors import printable
from dbg_wire.messages import Hang
from dbg_wire.rank_set import format_ranks
from dbg_wire.records import fitted

from ..core.asking import Asker
from ..hang.verdict import HARMLESS, Verdict, VerdictKind


def tell_of_hang(asker: Asker, verdicts: Sequence[Verdict], *, stands: bool = False) -> None:
    """Send the worst verdict on each job, as given worst first, unless it names no culprit.

    With ``stands`` it is known that no rank moves, so that a hang without a known cause is sent, too.
    """
    told: set[str] = set()
    for verdict in verdicts:
        is_hang = verdict.kind not in HARMLESS or (stands and verdict.kind is VerdictKind.UNKNOWN)
        if verdict.job not in told and is_hang:
            told.add(verdict.job)
            asker.tell(
                fitted(
                    Hang,
                    job=verdict.job,
                    kind=verdict.kind.value,
                    sentence=printable(verdict.sentence, 500),
                    ranks=format_ranks(verdict.ranks),
                    next=verdict.next or "",
                )
            )
