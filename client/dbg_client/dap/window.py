"""One window of an IDE: the ranks of its target as threads, questions to them, and what the IDE is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dbg_client.api.answers import safe_text
from dbg_client.api.inspection import ask_one
from dbg_client.api.values import Values, values_of
from dbg_client.command_line.session_line import read_scope
from dbg_client.core.asking import Asker
from dbg_client.core.directory import LISTS
from dbg_client.core.link import Down, Event, Up
from dbg_client.core.switchboard import Switchboard
from dbg_client.dap.messages import Message, Send, event, output
from dbg_client.dap.threads import Continued, Exited, Started, Stopped, ThreadEvent, ThreadTable
from dbg_client.seat.attachment import LOST_SECONDS
from dbg_command.targets import Target, select
from dbg_wire.errors import BadInput, DbgError, NoSuchRank, printable
from dbg_wire.messages import Action, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState


class Window:
    """The job as one window of an IDE has it; belongs to one event loop."""

    def __init__(self, switchboard: Switchboard, target: Target, send: Send) -> None:
        self.switchboard = switchboard
        self.target = target
        self._job = ""
        self._send = send

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
        return self.switchboard.may_act

    def now(self, rank: RankInfo) -> RankInfo:
        """Return a rank as it is listed now, or as it was at last."""
        return self.switchboard.directory.by_key.get(rank.key, rank)

    def asker(self, seconds: float | None = None) -> Asker:
        """Return what puts questions to ranks. Each raises TimedOut while the broker is away, or Declined."""
        return Asker(self.switchboard, seconds)

    async def ask_one(self, action: Action, rank: RankInfo, text: str = "") -> RankAnswer:
        """Return the answer of one rank. Raises RankError for any other than a value, and what questions raise."""
        return await ask_one(self.asker(), action, rank, text)

    def values(self, rank: RankInfo) -> Values:
        """Return the values of a stopped rank."""
        return values_of(self.switchboard, rank)

    # ----------------------------------------------------------------------------------------------------- what is told

    def event(self, name: str, body: Message | None = None) -> None:
        """Send an event to the IDE."""
        self._send(event(name, body))

    def tell(self, text: str, category: str = "console") -> None:
        """Print lines in the debug console; ``important`` as category opens a window with them in VS Code."""
        self._send(output(text, category))


COALESCE_SECONDS = 0.03
"""Seconds of the debounce: the changes of a thousand ranks that stop at once are told together."""


class Threads:
    """The ranks of a window as threads; watches the broker from :meth:`begin` on."""

    def __init__(self, window: Window, *, goes_on_by_itself: bool = False) -> None:
        self.table = ThreadTable()
        self._goes_on_by_itself = goes_on_by_itself
        self._shown: set[str] = set()
        """Ranks of which the IDE was told that they stand, and of no move since then."""
        self.focus: RankInfo | None = None
        """The rank that the IDE has looked at or was shown last."""
        self._window = window
        self._is_begun = False
        self._due: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._is_away = False
        self._known: dict[str, RankInfo] = {}
        self._patient_until = 0.0
        self._told_passed: dict[str, str] = {}
        """The stop that each rank has passed without stopping, as the IDE was told of it."""

    def begin(self) -> None:
        """Tell the IDE of the ranks that stand, and from now on of all changes."""
        self._is_begun = True
        self.refresh()
        rest = len(self._window.ranks) - len(self.table.listed)
        if rest > 0:
            self._window.tell(f"{rest} more ranks are listed as they stop; the debug console asks all of them.")

    # ------------------------------------------------------------------------------------------------------ the broker

    async def receive(self, event: Event) -> None:
        """Take what comes from the broker."""
        if isinstance(event, Down):
            if not self._is_away:
                self._window.tell(f"The broker is gone, reconnecting ({printable(event.reason)}).")
            self._is_away = True
        elif isinstance(event, Up):
            if self._is_away:
                self._window.tell("The broker is back.")
            self._is_away = False
            # A broker that was started anew lists ranks as they come back, which are the same ones.
            loop = asyncio.get_running_loop()
            self._patient_until = loop.time() + LOST_SECONDS
            self._late = loop.call_later(LOST_SECONDS, self.refresh)
        elif isinstance(event, LISTS) and self._due is None:
            self._due = asyncio.get_running_loop().call_later(COALESCE_SECONDS, self.refresh)

    def refresh(self) -> None:
        """Tell the IDE at once what has changed since the last look."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if not self._is_begun:
            return
        try:
            ranks = self._with_absent(self._window.ranks)
        except DbgError as error:
            self._window.tell(str(error), "important")
            return
        for told in self.table.update(ranks):
            self._tell(told)
        self._tell_of_passed(ranks)

    def close(self) -> None:
        """Tell nothing any more."""
        self._is_begun = False
        for due in (self._due, self._late):
            if due is not None:
                due.cancel()

    # ----------------------------------------------------------------------------------------------------- the IDE asks

    async def threads(self, arguments: Message) -> Message:
        """Answer ``threads``."""
        self.refresh()
        listed = self.table.listed
        several = len({rank.job for rank in listed}) > 1
        rows = [
            {
                "id": self.table.thread(rank.key),
                "name": printable(rank.full_address if several else rank.address),
            }
            for rank in listed
        ]
        return {"threads": rows}

    def of_key(self, key: str) -> RankInfo | None:
        """Return the rank with this key as it is listed now, or was before the broker was gone."""
        return self._window.switchboard.directory.by_key.get(key) or self._known.get(key)

    def rank(self, thread: object) -> RankInfo:
        """Return the rank with this number. Raises BadInput."""
        key = self.table.key(thread)
        rank = self.of_key(key) if key is not None else None
        if rank is None:
            raise BadInput("this rank is not there any more", "choose another thread")
        return rank

    def stopped_rank(self, thread: object) -> RankInfo:
        """Return the rank with this number, which stands. Raises BadInput if it runs or is not there."""
        rank = self.rank(thread)
        if not self.table.stands(rank.key):
            raise BadInput(f"{printable(rank.address)} is running", "pause it first")
        return rank

    def begin_move(self, rank: RankInfo, *, is_step: bool) -> None:
        """Note that the IDE makes a rank move, and looks at it."""
        self.focus = rank
        self._shown.discard(rank.key)
        self.table.begin_move(rank.key, is_step=is_step)

    # ----------------------------------------------------------------------------------------------------------- inner

    def _tell(self, told: ThreadEvent) -> None:
        if not isinstance(told, Stopped):
            self._shown.discard(self.table.key(told.thread) or "")
        if isinstance(told, Continued) or (isinstance(told, Exited) and self._goes_on_by_itself):
            # Without it nvim-dap takes a rank that has ended for the one at which it stands.
            self._window.event("continued", {"threadId": told.thread, "allThreadsContinued": False})
        if isinstance(told, (Started, Exited)):
            reason = "started" if isinstance(told, Started) else "exited"
            self._window.event("thread", {"reason": reason, "threadId": told.thread})
        elif isinstance(told, Stopped):
            self._tell_stop(told)

    def _tell_stop(self, told: Stopped) -> None:
        rank = self.rank(told.thread)
        focus = self.focus if self.focus is not None and self.table.stands(self.focus.key) else rank
        is_awaited = told.is_ours and self.focus is not None and self.focus.key == rank.key
        keeps_focus = not told.is_ours and focus.key != rank.key
        if not keeps_focus:
            self.focus = rank
        body = {
            "reason": "pause" if not is_awaited and self._would_go_on(rank) else told.reason,
            "description": told.description,
            "threadId": told.thread,
            "allThreadsStopped": False,
            "preserveFocusHint": keeps_focus,
        }
        self._shown.add(rank.key)
        self._window.event("stopped", {**body, "text": safe_text(told.text)} if told.text else body)

    def _would_go_on(self, rank: RankInfo) -> bool:
        """Tell whether the IDE would let a rank go on by itself that is told to have stopped.

        nvim-dap does so while it stands at another rank, for each reason but ``pause``.
        """
        return self._goes_on_by_itself and any(self.table.stands(key) for key in self._shown - {rank.key})

    def _with_absent(self, ranks: tuple[RankInfo, ...]) -> tuple[RankInfo, ...]:
        """Return the ranks and, for a while after the broker is back, those that it does not list yet."""
        listed = self._window.switchboard.directory.by_key
        if asyncio.get_running_loop().time() < self._patient_until:
            ranks += tuple(rank for key, rank in self._known.items() if key not in listed)
        self._known = {rank.key: rank for rank in ranks}
        return ranks

    def _tell_of_passed(self, ranks: tuple[RankInfo, ...]) -> None:
        """Tell once of each stop that a rank has passed without stopping."""
        passed = {rank.key: rank.passed for rank in ranks if rank.passed}
        for rank in ranks:
            if rank.passed and self._told_passed.get(rank.key) != rank.passed:
                self._window.tell(printable(f"{rank.address} passed {rank.passed}"))
        self._told_passed = passed
