"""Tell the broker what ``why`` has found, for those whom it tells of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbg_wire.errors import printable
from dbg_wire.messages import Hang, Message
from dbg_wire.rank_set import format_ranks
from dbg_wire.records import fitted

from ..hang.verdict import HARMLESS, Verdict, VerdictKind


def tell_of_hang(tell: Callable[[Message], None], verdicts: Sequence[Verdict], *, stands: bool = False) -> None:
    """Send, by ``tell``, the worst verdict on each job, as given worst first, unless it names no culprit.

    With ``stands`` it is known that no rank moves, so that a hang without a known cause is sent, too.
    """
    told: set[str] = set()
    for verdict in verdicts:
        is_hang = verdict.kind not in HARMLESS or (stands and verdict.kind is VerdictKind.UNKNOWN)
        if verdict.job not in told and is_hang:
            told.add(verdict.job)
            tell(
                fitted(
                    Hang,
                    job=verdict.job,
                    kind=verdict.kind.value,
                    sentence=printable(verdict.sentence, 500),
                    ranks=format_ranks(verdict.ranks),
                    next=verdict.next or "",
                )
            )
