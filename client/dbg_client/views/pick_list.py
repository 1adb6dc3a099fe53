"""The list that the user picks a rank from: its rows, the chosen one, and the part in sight. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dbg_client.core.choose import is_ready, may_be_picked
from dbg_client.views.list import align, first_limits
from dbg_client.views.table import text_width
from dbg_wire.errors import printable
from dbg_wire.records.ranks import NO_STOP, ListedEnd, ListedStop, RankInfo, RankState, SeatCounts, rank_order

FOLDED, UNFOLDED = "+", "-"
"""What stands before a group of which the ranks are not listed, and of which they are."""

MAX_ADDRESS = 1000
"""Characters of a host or an address in a row that has more than that: the record has a bound, and the screen too."""

MOST_ROWS = 100_000
"""Rows before the first look at the screen: nothing is folded by then."""

_KEYS = (
    "q leaves",
    "? help",
    "/ narrows",
    "Space selects",
    "w where",
    "e value",
    "c command",
    "i break in",
)
"""The list's keys besides Enter."""

HELP = """\
Enter        attach to the rank; break into it first, if it runs (asks)
j k, arrows  up and down; PageUp, PageDown, Home and End as well
Right, Left  list the ranks of a host one by one, or as one line
             (only where there are more ranks than rows; Enter does both)
/            narrow the list to ranks with these words in their line
Space, Tab   select a rank, or all of a host; no longer, if they are
w            where the selected ranks are, or the chosen one: their stacks
e            a value of the selected ranks
c            a pdb command on the selected ranks, e.g. n
i            break into the selected ranks
Esc          show all again, select none, leave
q            leave
"""
"""What stands on the picker's help page."""


@dataclass(frozen=True, slots=True)
class PickRow:
    """One row: a rank, or a group of a host's ranks in one state. ``key`` stays the same while the ranks change."""

    key: str
    ranks: tuple[RankInfo, ...]
    shown: RankInfo
    """What the row's columns say."""
    group: str | None = None
    """The key of the group that this row is or belongs to."""

    @property
    def rank(self) -> RankInfo | None:
        """Return the rank, None for a group."""
        return None if self.key == self.group else self.ranks[0]


def make_rows(ranks: Sequence[RankInfo], height: int, unfolded: AbstractSet[str]) -> tuple[PickRow, ...]:
    """Return a row for each rank, in this order; beyond ``height`` rows, ranks of one host and state are one group.

    The ranks of groups in ``unfolded`` follow their group's row.
    """
    if len(ranks) <= height:
        return tuple(PickRow(rank.key, (rank,), rank) for rank in ranks)
    groups: dict[str, list[RankInfo]] = {}
    for rank in ranks:
        groups.setdefault(_group(rank), []).append(rank)
    rows: list[PickRow] = []
    for key, members in groups.items():
        if len(members) == 1:
            rows.append(PickRow(members[0].key, (members[0],), _indented(members[0])))
            continue
        sign = UNFOLDED if key in unfolded else FOLDED
        rows.append(PickRow(key, tuple(members), _summary(members, sign), key))
        if key in unfolded:
            rows += [PickRow(rank.key, (rank,), _indented(rank), key) for rank in members]
    return tuple(rows)


def index_of(rows: Sequence[PickRow], key: str | None) -> int:
    """Return where the row with this key is: the group's, if it is the key of a rank that is folded away; else 0."""
    for index, row in enumerate(rows):
        if row.key == key:
            return index
    holding = (index for index, row in enumerate(rows) if any(rank.key == key for rank in row.ranks))
    return next(holding, 0)


def _group(rank: RankInfo) -> str:
    return f"\0{rank.job}\0{rank.run}\0{rank.host}\0{rank.state.value}"  # no rank's key begins so


def _summary(members: Sequence[RankInfo], sign: str) -> RankInfo:
    first = members[0]
    places = {(rank.where, rank.reason) for rank in members}
    same = len(places) == 1
    return first.replace(
        address=f"{sign} {first.host[:MAX_ADDRESS]}:*  {len(members)} ranks",
        halt=ListedStop(where=first.where, reason=first.reason) if same else NO_STOP,
        end=ListedEnd(exit=first.exit),
        since=min(rank.since for rank in members),
        queued=0,
        seats=SeatCounts(watchers=sum(rank.watchers for rank in members)),
    )


def _indented(rank: RankInfo) -> RankInfo:
    return rank.replace(address=f"  {rank.address[:MAX_ADDRESS]}")


@dataclass(frozen=True, slots=True)
class VisibleRows:
    """The part of the list in sight: header, lines, which line is chosen (None: there are no lines), which selected.

    Lines and header have colours by state, which the state's word says as well, where they were asked for.
    """

    header: str
    lines: tuple[str, ...]
    chosen: int | None
    selected: frozenset[int] = frozenset()


class PickList:
    """Keep filter, choice and selection while the ranks change under them.

    Stopped ranks come first. The choice stays with its rank when the rank moves, and goes to the first line when the
    rank leaves the list. Ranks that leave are selected no more. More ranks than the screen has rows are folded by host
    and state.
    """

    def __init__(self) -> None:
        self.filter = ""
        self.total = 0
        self._ranks: tuple[RankInfo, ...] = ()
        self._rows: tuple[PickRow, ...] = ()
        self._unfolded: set[str] = set()
        self._selected: dict[str, RankInfo] = {}
        self._height = MOST_ROWS
        self._key: str | None = None
        self._top = 0

    @property
    def chosen(self) -> RankInfo | None:
        """Return the chosen rank, None for a group."""
        return self._rows[self._index()].rank if self._rows else None

    @property
    def is_folded(self) -> bool | None:
        """Tell whether the chosen line is a group whose ranks are not listed; None for a rank, or no line."""
        row = self._rows[self._index()] if self._rows else None
        return None if row is None or row.rank is not None else row.key not in self._unfolded

    @property
    def meant(self) -> tuple[RankInfo, ...]:
        """Return the ranks that an action is for: those selected, else those of the chosen line."""
        if self._selected:
            return tuple(self._selected.values())
        return self._rows[self._index()].ranks if self._rows else ()

    @property
    def selected_count(self) -> int:
        """Return how many ranks are selected, those that the filter hides too."""
        return len(self._selected)

    @property
    def count(self) -> int:
        """Return how many ranks fit the filter."""
        return len(self._ranks)

    def update(self, ranks: Sequence[RankInfo], height: int | None = None) -> None:
        """Take the ranks as they are now, and the rows of the screen; exited ranks are left out."""
        words = self.filter.lower().split()
        there = [rank for rank in ranks if rank.state is not RankState.EXITED]
        self.total = len(there)
        self._height = self._height if height is None else height
        by_key = {rank.key: rank for rank in there}
        self._selected = {key: by_key[key] for key in self._selected if key in by_key}
        fitting = [rank for rank in there if _fits(rank, words)]
        self._ranks = tuple(sorted(fitting, key=lambda rank: (not is_ready(rank), rank_order(rank))))
        self._arrange()

    def _arrange(self) -> None:
        self._rows = make_rows(self._ranks, self._height, self._unfolded)
        if self._rows:
            self._key = self._rows[self._index()].key

    def move(self, lines: int) -> None:
        """Choose the line that many lines further down, or up if negative; stops at the ends."""
        if self._rows:
            self._key = self._rows[min(max(self._index() + lines, 0), len(self._rows) - 1)].key

    def unfold(self) -> bool:
        """List the ranks of the chosen group; tells whether it is one."""
        row = self._rows[self._index()] if self._rows else None
        if row is None or row.rank is not None:
            return False
        self._unfolded.add(row.key)
        self._arrange()
        return True

    def fold(self) -> None:
        """List the chosen group, or that of the chosen rank, as one line."""
        row = self._rows[self._index()] if self._rows else None
        if row is not None and row.group is not None:
            self._unfolded.discard(row.group)
            self._key = row.group
            self._arrange()

    def enter(self) -> RankInfo | None:
        """Return the chosen rank; of a group, fold or unfold it, and return None."""
        row = self._rows[self._index()] if self._rows else None
        if row is None or row.rank is not None:
            return None if row is None else row.rank
        if row.key in self._unfolded:
            self.fold()
        else:
            self.unfold()
        return None

    def select(self) -> None:
        """Select the ranks of the chosen line, or no longer if they all are; go to the next line."""
        if not self._rows:
            return
        row = self._rows[self._index()]
        if self._is_selected(row):
            for rank in row.ranks:
                del self._selected[rank.key]
        else:
            self._selected.update((rank.key, rank) for rank in row.ranks)
        self.move(1)

    def select_none(self) -> None:
        """Select no rank any more."""
        self._selected.clear()

    def show(self, height: int, now: float, *, color: bool = False) -> VisibleRows:
        """Return the lines in sight, ``height`` at most, the chosen one among them."""
        if height != self._height and height > 0:
            self._height = height
            self._arrange()
        if not self._rows or height < 1:
            return VisibleRows("", (), None)
        index = self._index()
        self._top = min(max(self._top, index - height + 1, 0), index, max(0, len(self._rows) - height))
        # Aligned over all ranks, so that columns don't jump while the user scrolls.
        header, lines = align([row.shown for row in self._rows], now, color=color)
        end = self._top + height
        in_sight = enumerate(self._rows[self._top : end])
        selected = frozenset(number for number, row in in_sight if self._is_selected(row))
        return VisibleRows(header, tuple(lines[self._top : end]), index - self._top, selected)

    def _is_selected(self, row: PickRow) -> bool:
        return all(rank.key in self._selected for rank in row.ranks)

    def _index(self) -> int:
        return index_of(self._rows, self._key)


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
        "Start a job by `dbg-broker run -- COMMAND`, or each rank by\n"
        "`python -m dbg_agent train.py`; for a job that runs: `dbg-attach adopt --mine`."
    )


def title_text(*, count: int, total: int, selected: int, chosen: RankInfo | None = None) -> str:
    """Return the line above the list: what it is for, how many ranks are shown, and the chosen one's time limit."""
    shown = f"{count} of {total}" if total != 1 else f"{count} of 1 rank"
    several = f"   {selected} selected" if selected else ""
    limit = f"   {first_limits([chosen])[0]}" if chosen is not None and chosen.limit else ""
    return f"Pick a rank to attach to   {shown}{several}{limit}"


def footer_text(
    columns: int, *, away: str | None, filtering: bool, chosen: RankInfo | None, folded: bool | None = None
) -> str:
    """Return the line below the list: the keys that work now, as many as fit into ``columns``, important ones first.

    ``folded`` tells of a group whether its ranks are not listed; it is None for a rank.
    """
    if away is not None:
        return f"broker gone, reconnecting ({printable(away)})   q leaves"
    if filtering:
        return "type to narrow   Enter attaches   Tab selects   Esc shows all"
    text = "Enter attaches"
    if folded is not None:
        text = f"Enter {'unfolds' if folded else 'folds'}"
    elif chosen is not None and may_break_in(chosen):
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
