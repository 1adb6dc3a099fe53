"""What the parts of one IDE's window share: the ranks of its target, questions to them, and what the IDE is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dbg_client.api.errors import RankError
from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import Switchboard
from dbg_client.dap.messages import Message, Send, event, output
from dbg_client.words.commands import read_scope
from dbg_wire.errors import NoSuchRank
from dbg_wire.messages import Action, Kind, Look, RankAnswer
from dbg_wire.messages.rows import AnyInquiry
from dbg_wire.records.inspection import Inspected, Inspection, inspected_in
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import Target, select

AT_ONCE = 12
"""Questions of one window that are open at the same time; the broker takes 16 of one terminal."""

WATCHER = "watcher"
"""The role whose tokens let a terminal look and nothing else."""


class Window:
    """The job as one window of an IDE has it; belongs to one event loop."""

    def __init__(self, switchboard: Switchboard, target: Target, send: Send) -> None:
        self.switchboard = switchboard
        self.target = target
        self._job = ""
        self._send = send
        self._free = asyncio.Semaphore(AT_ONCE)

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return the ranks of the target that have not exited, as the broker lists them now; empty if there are none.

        Raises AmbiguousTarget if they are of several jobs.
        """
        try:
            found = select(self.target, self.switchboard.directory.ranks).ranks
        except NoSuchRank:
            return ()
        self._keep_job(found)
        return tuple(rank for rank in found if rank.state is not RankState.EXITED)

    @property
    def job(self) -> str:
        """Return the job of the window's ranks, the first one's of several. Raises NoSuchRank."""
        if not self._job:
            _ = self.ranks
        if not self._job:
            raise NoSuchRank(self.target.text, len(self.switchboard.directory.ranks))
        return self._job

    def _keep_job(self, found: Sequence[RankInfo]) -> None:
        """Stay with the job whose ranks were found first: another one that starts is not for this window."""
        if not self._job:
            self._job = found[0].job
            self.target = read_scope(self.target, self._job)

    @property
    def may_act(self) -> bool:
        """Tell whether the token lets this window change anything."""
        welcome = self.switchboard.welcome
        return welcome is None or welcome.role != WATCHER

    def now(self, rank: RankInfo) -> RankInfo:
        """Return a rank as it is listed now, or as it was at last."""
        return self.switchboard.directory.by_key.get(rank.key, rank)

    # ------------------------------------------------------------------------------------------------------- questions

    async def ask(
        self,
        action: Action,
        ranks: Sequence[RankInfo],
        text: str = "",
        *,
        inquiry: AnyInquiry | None = None,
        frame: str = "",
        seconds: float | None = None,
        look: Look = Look.STACK,
    ) -> list[RankAnswer]:
        """Return the answers in the order of ``ranks``. Raises TimedOut while the broker is away, or Declined."""
        async with self._free:
            asker = Asker(self.switchboard, seconds)
            return await asker.ask(action, ranks, text, inquiry=inquiry, frame=frame, look=look)

    async def ask_one(
        self,
        action: Action,
        rank: RankInfo,
        text: str = "",
        *,
        inquiry: AnyInquiry | None = None,
        frame: str = "",
        seconds: float | None = None,
    ) -> RankAnswer:
        """Return the answer of one rank. Raises RankError for any other than a value, and what :meth:`ask` raises."""
        (answer,) = await self.ask(action, [rank], text, inquiry=inquiry, frame=frame, seconds=seconds)
        if answer.kind is not Kind.VALUE:
            raise RankError(rank.address, answer.text, answer.kind.value)
        return answer

    async def inspect(self, rank: RankInfo, question: Inspection, frame: str = "") -> Inspected:
        """Return what one rank tells of its values. Raises what :meth:`ask_one` raises."""
        return inspected_in((await self.ask_one(Action.INSPECT, rank, inquiry=question, frame=frame)).rows)

    # ----------------------------------------------------------------------------------------------------- what is told

    def event(self, name: str, body: Message | None = None) -> None:
        """Send an event to the IDE."""
        self._send(event(name, body))

    def tell(self, text: str, category: str = "console") -> None:
        """Print lines in the debug console; ``important`` as category opens a window with them in VS Code."""
        self._send(output(text, category))
