"""``run --tmux``: each rank that stops has a pane of tmux beside the one that shows the job's output."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dbg_client.core.breakpoint_file import read_breakpoints
from dbg_client.tmux.panes import open_pane_beside
from dbg_client.tmux.tmux import MAX_PANES, kill_pane, living_panes
from dbg_client.words.settings import AttachOptions, BrokerOptions, Tmux
from dbg_wire.errors import DbgError, printable
from dbg_wire.ranks import Breakpoint, RankInfo


class RankPanes:
    """The panes of the ranks that have stopped; one is opened anew if its rank stops after somebody has closed it.

    ``folder`` is for files of the panes, and is removed at the end.
    """

    def __init__(
        self, broker: BrokerOptions, attach: AttachOptions, own_pane: str, say: Callable[[str], None], folder: str
    ) -> None:
        self._broker, self._attach = broker, attach
        self._own = own_pane
        self._say = say
        self._panes: dict[str, str] = {}
        self._folder = folder
        self._files: dict[str, str] = {}
        """The file of each rank's pane, in which it tells the breakpoints that are set there."""

    async def show(self, rank: RankInfo, known: Sequence[RankInfo]) -> None:
        """Open a pane for a rank that has none; a pane that can't be opened is told, and nothing else happens."""
        try:
            await asyncio.to_thread(self._open, rank, known)
        except DbgError as error:
            target = printable(f"{rank.job}/{rank.address}")
            self._say(f"dbg-attach: {error}; `dbg-attach {target}` attaches in another terminal")

    def _open(self, rank: RankInfo, known: Sequence[RankInfo]) -> None:
        there = living_panes()
        self._panes = {key: pane for key, pane in self._panes.items() if pane in there}
        if rank.key in self._panes:
            return
        if len(self._panes) >= MAX_PANES:
            raise TooManyStopped(rank.address)
        last = next(reversed(self._panes.values()), None)
        file = self._files.setdefault(rank.key, str(Path(self._folder, f"{len(self._files)}.json")))
        settings = Tmux(broker=self._broker, attach=replace(self._attach, breakpoints_to=file))
        self._panes[rank.key] = open_pane_beside(settings, rank, known, last or self._own, is_first=last is None)

    def breakpoints(self) -> tuple[Breakpoint, ...]:
        """Return what people have set in the panes, ordered by file and line, each once. Blocks."""
        found = {one for file in self._files.values() for one in read_breakpoints(file)}
        return tuple(sorted(found, key=lambda one: (one.file, one.line, one.condition or "")))

    async def close(self, living: Sequence[RankInfo]) -> None:
        """Close the panes of all ranks but those that are still there; what is set in these from now on is lost."""
        keys = {rank.key for rank in living}
        for key, pane in self._panes.items():
            if key not in keys:
                await asyncio.to_thread(kill_pane, pane)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class TooManyStopped(DbgError):
    """Say that there are as many panes as one can look at."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"{printable(self.address)} is stopped, and has no pane, as {MAX_PANES} are open"
