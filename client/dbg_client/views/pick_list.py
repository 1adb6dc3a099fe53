"""The list that the user picks a rank from: its ranks, the chosen one, and the part in sight. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_wire.errors import printable
from dbg_wire.ranks import RankInfo, RankState

from ..core.choose import is_ready, may_be_picked
from .list import align


@dataclass(frozen=True, slots=True)
class VisibleRows:
    """The part of the list in sight: header, lines, and which line is chosen (None: there are no lines)."""

    header: str
    lines: tuple[str, ...]
    chosen: int | None


class PickList:
    """Keep filter and choice while the ranks change under them.

    Stopped ranks come first. The choice stays with its rank when the rank moves, and goes to the first line when the
    rank leaves the list.
    """

    def __init__(self) -> None:
        self.filter = ""
        self._ranks: tuple[RankInfo, ...] = ()
        self._key: str | None = None
        self._top = 0

    @property
    def chosen(self) -> RankInfo | None:
        """Return the chosen rank."""
        return self._ranks[self._index()] if self._ranks else None

    def update(self, ranks: Sequence[RankInfo]) -> None:
        """Take the ranks as they are now; exited ones are left out."""
        words = self.filter.lower().split()
        fitting = (rank for rank in ranks if rank.state is not RankState.EXITED and _fits(rank, words))
        self._ranks = tuple(sorted(fitting, key=_order))
        if self._ranks:
            self._key = self._ranks[self._index()].key

    def move(self, lines: int) -> None:
        """Choose the rank that many lines further down, or up if negative; stops at the ends."""
        if self._ranks:
            index = min(max(self._index() + lines, 0), len(self._ranks) - 1)
            self._key = self._ranks[index].key

    def show(self, height: int, now: float) -> VisibleRows:
        """Return the lines in sight, ``height`` at most, the chosen one among them."""
        if not self._ranks or height < 1:
            return VisibleRows("", (), None)
        index = self._index()
        self._top = min(max(self._top, index - height + 1, 0), index, max(0, len(self._ranks) - height))
        # Aligned over all ranks, so that columns don't jump while the user scrolls.
        header, lines = align(self._ranks, now)
        return VisibleRows(header, tuple(lines[self._top : self._top + height]), index - self._top)

    def _index(self) -> int:
        return next((i for i, rank in enumerate(self._ranks) if rank.key == self._key), 0)


def empty_text(*, known: int, filtered: str, away: str | None, url: str) -> str:
    """Return what stands in a list without lines: why it is empty and what to do."""
    if filtered:
        return f"No rank fits '{printable(filtered)}'. Esc shows all."
    if away is not None:
        return f"The broker at {printable(url)} is gone ({printable(away)}); reconnecting."
    if known:
        return "All ranks have exited; `dbg-attach --list --all` lists them."
    return (
        f"No rank has connected to the broker at {printable(url)} yet.\n\n"
        "A rank appears here when it first calls `set_trace()` of `dbg_agent`,\n"
        "or when `python -m dbg_agent train.py` starts it."
    )


def footer_text(*, away: str | None, filtering: bool, chosen: RankInfo | None) -> str:
    """Return the line below the list: which keys work now."""
    if away is not None:
        return f"broker gone, reconnecting ({printable(away)})   q leaves"
    if filtering:
        return "type to narrow   Enter attaches   Esc shows all"
    if chosen is not None and not may_be_picked(chosen):
        return f"{printable(chosen.address)} is {chosen.state.value}; it can be attached to when it stops   q leaves"
    return "Enter attaches   / narrows   j k up and down   q leaves"


def _fits(rank: RankInfo, words: Sequence[str]) -> bool:
    where = f"{rank.where.file}:{rank.where.line} {rank.where.function}" if rank.where else ""
    text = f"{rank.full_address} {rank.state.value} {rank.reason or ''} {where} {rank.driver or ''}".lower()
    return all(word in text for word in words)


def _order(rank: RankInfo) -> tuple[bool, str, int, int, str]:
    return not is_ready(rank), rank.job, rank.rank, -1 if rank.child is None else rank.child, rank.key
