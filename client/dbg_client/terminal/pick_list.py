"""The list that the user picks a rank from: its rows, the chosen one, and the part in sight. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.core.choose import is_ready, may_be_picked
from dbg_client.views.list import align, first_limits
from dbg_client.views.table import text_width
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo, RankState, rank_order

_KEYS = ("/ narrows", "q leaves")
"""The list's keys besides Enter."""


@dataclass(frozen=True, slots=True)
class VisibleRows:
    """The part of the list in sight: header, lines, and which line is chosen (None: there are no lines).

    Lines and header have colours by state, which the state's word says as well, where they were asked for.
    """

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
        self.total = 0
        self._ranks: tuple[RankInfo, ...] = ()
        self._key: str | None = None
        self._top = 0

    @property
    def chosen(self) -> RankInfo | None:
        """Return the chosen rank, None in an empty list."""
        return self._ranks[self._index()] if self._ranks else None

    @property
    def count(self) -> int:
        """Return how many ranks fit the filter."""
        return len(self._ranks)

    def update(self, ranks: Sequence[RankInfo]) -> None:
        """Take the ranks as they are now; exited ranks are left out."""
        words = self.filter.lower().split()
        there = [rank for rank in ranks if rank.state is not RankState.EXITED]
        self.total = len(there)
        fitting = [rank for rank in there if _fits(rank, words)]
        self._ranks = tuple(sorted(fitting, key=lambda rank: (not is_ready(rank), rank_order(rank))))
        if self._ranks:
            self._key = self._ranks[self._index()].key

    def move(self, lines: int) -> None:
        """Choose the line that many lines further down, or up if negative; stops at the ends."""
        if self._ranks:
            self._key = self._ranks[min(max(self._index() + lines, 0), len(self._ranks) - 1)].key

    def show(self, height: int, now: float, *, color: bool = False) -> VisibleRows:
        """Return the lines in sight, ``height`` at most, the chosen one among them."""
        if not self._ranks or height < 1:
            return VisibleRows("", (), None)
        index = self._index()
        self._top = min(max(self._top, index - height + 1, 0), index, max(0, len(self._ranks) - height))
        header, lines = align(self._ranks[self._top : self._top + height], now, color=color)
        return VisibleRows(header, tuple(lines), index - self._top)

    def _index(self) -> int:
        return next((index for index, rank in enumerate(self._ranks) if rank.key == self._key), 0)


def empty_text(*, known: int, filtered: str, away: str | None, url: str) -> str:
    """Return what stands in a list without lines: why it is empty and what to do."""
    if filtered:
        return f"No rank fits '{printable(filtered)}'. Esc shows all."
    if away is not None:
        return f"The broker at {printable(url)} is gone ({printable(away)}); reconnecting."
    if known:
        return "All ranks have exited; `dbg-attach list --all` lists them."
    return (
        f"No rank is connected to the broker at {printable(url)} yet.\n\n"
        "Start a job by `dbg-attach run -- COMMAND`, or each rank by\n"
        "`python -m dbg_agent train.py`; for a job that runs: `dbg-attach adopt --mine`."
    )


def title_text(*, count: int, total: int, chosen: RankInfo | None = None) -> str:
    """Return the line above the list: what it is for, how many ranks are shown, and the chosen one's time limit."""
    shown = f"{count} of {total}" if total != 1 else f"{count} of 1 rank"
    limit = f"   {first_limits([chosen])[0]}" if chosen is not None and chosen.limit else ""
    return f"Pick a rank to attach to   {shown}{limit}"


def footer_text(columns: int, *, away: str | None, filtering: bool, chosen: RankInfo | None) -> str:
    """Return the line below the list: the keys that work now, as many as fit into ``columns``, important ones first."""
    if away is not None:
        return f"broker gone, reconnecting ({printable(away)})   q leaves"
    if filtering:
        return "type to narrow   Enter attaches   Esc shows all"
    text = "Enter attaches"
    if chosen is not None and may_break_in(chosen):
        text = f"{printable(chosen.address)} is running; Enter breaks in"
    elif chosen is not None and not may_be_picked(chosen):
        text = f"{printable(chosen.address)} is {chosen.state.value}; it can be attached to when it stops"
    for key in _KEYS:
        if text_width(text) + 3 + len(key) > columns:
            break
        text += f"   {key}"
    return text


def may_break_in(rank: RankInfo) -> bool:
    """Return whether a break-in may help a user who wants to attach to the rank."""
    return rank.state is RankState.RUNNING and not rank.is_classic


def _fits(rank: RankInfo, words: Sequence[str]) -> bool:
    where = f"{rank.where.file}:{rank.where.line} {rank.where.function}" if rank.where else ""
    text = f"{rank.full_address} {rank.state.value} {rank.reason or ''} {where} {rank.driver or ''}".lower()
    return all(word in text for word in words)
