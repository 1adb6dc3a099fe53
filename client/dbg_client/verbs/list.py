"""``list``: the ranks and their states."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from dbg_client.core.choose import ExpectedRanks, find_missing_ranks, listed
from dbg_client.verbs.option import Operands, Option
from dbg_client.verbs.verb import PLAIN, Answer, Asking, Style, WaitingVerb
from dbg_client.views.list import list_document, nobody_yet, show_table
from dbg_client.views.naming import absent_rows, missing_documents
from dbg_command.targets import Target
from dbg_wire.records.ranks import RankInfo, rank_order


class ListRanks(WaitingVerb):
    """List the ranks of a target, or all ranks that have not exited."""

    name = "list"
    example = "list stopped"
    operands = Operands.MAYBE_TARGET
    in_session = Operands.MAYBE_TARGET
    help_in_session = "the ranks and their states; --all: exited ranks, too"
    without_target = True
    any_job = True

    all: Annotated[bool, Option("--all", in_session=True, help="include all exited ranks")] = False
    all_rows: Annotated[
        bool, Option("--all-rows", in_session=True, help="a row for each rank, also if there are more than 40")
    ] = False

    async def ask(self, asking: Asking) -> RankList:
        who = "All ranks" if asking.target is None else "All of these ranks"
        hint = f"{who} have exited; --all lists them." if asking.known else nobody_yet(asking.url)
        ranks = list_ranks(asking.known, asking.target, asking.ranks, with_exited=self.all)
        return RankList(
            shown=ranks,
            absent=tuple(find_missing_ranks(asking.known, asking.target)),
            known=asking.known,
            folds=not self.all_rows,
            hint="" if ranks else hint,
        )


def list_ranks(
    known: Sequence[RankInfo], target: Target | None, found: Sequence[RankInfo], *, with_exited: bool = False
) -> tuple[RankInfo, ...]:
    """Return the ranks of a list in their order, including exited ranks of live runs."""
    return tuple(sorted(listed(known, target, found, with_exited=with_exited), key=rank_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankList(Answer):
    """The ranks of a list in their order, and the missing ranks of live runs."""

    shown: tuple[RankInfo, ...]
    absent: tuple[ExpectedRanks, ...]
    known: Sequence[RankInfo]
    folds: bool = True
    hint: str = ""

    def text(self, style: Style = PLAIN) -> str:
        several = len({rank.job for rank in self.shown}) > 1
        table = show_table(self.shown, time.time(), color=style.color, fold=self.folds, known=self.known)
        return table + absent_rows(self.absent, several_jobs=several)

    def document(self) -> object:
        return list_document(self.shown, missing_documents(self.absent, with_exited=False))
