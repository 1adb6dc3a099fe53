"""What a verb is given when it asks: the connection, the ranks that are meant, and all ranks that are known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_client.core.choose import there
from dbg_client.core.errors import why_not_stopped
from dbg_client.core.patience import Show, show_nobody
from dbg_client.core.roll_call import call_roll
from dbg_client.views.missing import MissingInAnswer, missing_in_answer
from dbg_wire.messages import Welcome
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.grammar import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Ask ``ranks``, which ``target`` means, of all ``known`` ones; ``show`` takes what an answer waits for.

    ``url`` and ``welcome`` are the broker's, for an empty list and a report.
    """

    asker: Asker
    ranks: Sequence[RankInfo]
    known: Sequence[RankInfo]
    target: Target | None = None
    show: Show = show_nobody
    url: str = ""
    welcome: Welcome | None = None

    def missing(self) -> MissingInAnswer:
        """Return the ranks that should be among those who are asked, and have exited or never connected."""
        calls = call_roll(self.known, self.target, {rank.key for rank in self.ranks})
        return missing_in_answer(calls, time.time(), several_jobs=len({rank.job for rank in self.ranks}) > 1)

    def require_living(self) -> None:
        """Raise the DbgError that says how they ended if all of these ranks have exited."""
        if all(rank.state is RankState.EXITED for rank in self.ranks):
            raise why_not_stopped(self.ranks[0], self.target.text if self.target is not None else "")

    def everybody(self) -> list[RankInfo]:
        """Return all ranks that have not exited."""
        return there(self.known)
