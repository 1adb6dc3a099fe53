"""The texts of log points in the debug console: equal texts of many ranks are one line."""

from __future__ import annotations

import asyncio
from collections import Counter

from dbg_client.core.directory import LISTS
from dbg_client.core.link import Event
from dbg_client.dap.listing import MAX_SHOWN
from dbg_client.dap.window import Window
from dbg_client.views.naming import Naming, clip
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Logged
from dbg_wire.records.ranks import RankInfo

GATHER_SECONDS = 0.1
"""Seconds for which texts are gathered: ranks of one job come to a line nearly at the same time."""

MAX_GATHERED = 500
"""Texts that are gathered at most; with more, those that have come are printed at once."""

MAX_TEXT = 4000
"""Characters of a text that the console shows; an escaped one is longer than what the broker sends."""


class LogTexts:
    """The texts that have come and are not printed yet; watches the broker."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._ranks: dict[str, RankInfo] | None = None
        """The ranks of the window by their keys; None after a change, until they are needed."""
        self._gathered: dict[tuple[str, int], list[RankInfo]] = {}
        """The ranks of each text; one that a rank has logged twice is there a second time."""
        self._count: Counter[tuple[str, str]] = Counter()
        self._left_out = 0
        self._due: asyncio.TimerHandle | None = None

    async def take(self, event: Event) -> None:
        """Gather the text of a rank of this window."""
        if isinstance(event, LISTS):
            self._ranks = None
        elif isinstance(event, Logged) and (rank := self._known().get(event.key)) is not None:
            self._gather(rank, event)

    def close(self) -> None:
        """Print what has come, and no more."""
        self._print()

    def _known(self) -> dict[str, RankInfo]:
        if self._ranks is None:
            try:
                self._ranks = {rank.key: rank for rank in self._window.ranks}
            except DbgError:
                # The target is of several jobs, which the list of threads tells.
                self._ranks = {}
        return self._ranks

    def _gather(self, rank: RankInfo, event: Logged) -> None:
        self._left_out += event.left_out
        self._gathered.setdefault((event.text, self._count[rank.key, event.text]), []).append(rank)
        self._count[rank.key, event.text] += 1
        if self._count.total() >= MAX_GATHERED:
            self._print()
        elif self._due is None:
            self._due = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._print)

    def _print(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        gathered, left_out = self._gathered, self._left_out
        self._gathered, self._count, self._left_out = {}, Counter(), 0
        if not gathered:
            return
        if left_out:
            self._window.tell(f"Log texts left out here: {left_out}; the job's output has them.")
        naming = Naming(tuple(self._known().values()))
        lines = [
            f"{printable(clip(naming.names(ranks), MAX_SHOWN))}: {printable(text, MAX_TEXT)}"
            for (text, _), ranks in gathered.items()
        ]
        self._window.tell("\n".join(lines), "stdout")
