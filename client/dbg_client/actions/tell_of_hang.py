"""Tell the broker what ``why`` has found, for those whom it tells of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbg_client.hang.verdict import HARMLESS, Verdict, VerdictKind
from dbg_wire.errors import printable
from dbg_wire.messages import Hang, Message
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import fitted
from dbg_wire.targets.rank_set import format_ranks


def tell_of_hang(
    tell: Callable[[Message], None],
    verdicts: Sequence[Verdict],
    known: Sequence[RankInfo] = (),
    *,
    stands: bool = False,
) -> None:
    """Send, by ``tell``, the worst verdict on each job, as given worst first, unless it names no culprit.

    With ``stands`` it is known that no rank moves, so that a hang without a known cause is sent, too. A verdict is not
    sent if all ranks that it names stand in a debugger or are held, as the ``known`` ranks tell: a user stopped them.
    """
    told: set[str] = set()
    in_debugger = {(rank.job, rank.rank) for rank in known if rank.state in (RankState.STOPPED, RankState.HELD)}
    for verdict in verdicts:
        is_hang = verdict.kind not in HARMLESS or (stands and verdict.kind is VerdictKind.UNKNOWN)
        is_stop = bool(verdict.ranks) and all((verdict.job, number) in in_debugger for number in verdict.ranks)
        if verdict.job not in told and is_hang and not is_stop:
            told.add(verdict.job)
            tell(
                fitted(
                    Hang,
                    job=verdict.job,
                    kind=verdict.kind.value,
                    sentence=printable(verdict.sentence, 500),
                    ranks=format_ranks(verdict.ranks),
                )
            )
