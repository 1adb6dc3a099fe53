"""One window of an IDE: the target's ranks as threads, questions to ranks, and events for the IDE."""

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
    """One IDE window's view of the job; belongs to one event loop."""

    def __init__(self, switchboard: Switchboard, target: Target, send: Send) -> None:
        self.switchboard = switchboard
        self.target = target
        self._job = ""
        self._send = send

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """The target's ranks that have not exited, as the broker lists them now; empty if there are none.

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
        """The job of the ranks that this window found first. Raises NoSuchRank and AmbiguousTarget."""
        if not self._job:
            _ = self.ranks
        if not self._job:
            raise NoSuchRank(self.target.text, len(self.switchboard.directory.ranks))
        return self._job

    def _keep_job(self, found: Sequence[RankInfo]) -> None:
        """Stay with the job whose ranks were found first, so that this window ignores jobs that start later."""
        if not self._job:
            self._job = found[0].job
            self.target = read_scope(self.target, self._job)

    @property
    def may_act(self) -> bool:
        """Whether the token allows this window to change anything."""
        return self.switchboard.may_act

    def now(self, rank: RankInfo) -> RankInfo:
        """Return a rank as it is listed now, or else as it was last listed."""
        return self.switchboard.directory.by_key.get(rank.key, rank)

    def asker(self, seconds: float | None = None) -> Asker:
        """Return an Asker for questions to ranks.

        A question raises TimedOut if the broker is gone or silent, and Declined if the broker refuses it.
        """
        return Asker(self.switchboard, seconds)

    async def ask_one(self, action: Action, rank: RankInfo, text: str = "") -> RankAnswer:
        """Return the answer of one rank. Raises RankError if it is not a value, and the errors of :meth:`asker`."""
        return await ask_one(self.asker(), action, rank, text)

    def values(self, rank: RankInfo) -> Values:
        """Return the values of a stopped rank."""
        return values_of(self.switchboard, rank)

    # ------------------------------------------------------------------------------------------------------- to the IDE

    def event(self, name: str, body: Message | None = None) -> None:
        """Send an event to the IDE."""
        self._send(event(name, body))

    def write(self, text: str, category: str = "console") -> None:
        """Print text in the debug console; category ``important`` also opens a message box in VS Code."""
        self._send(output(text, category))


COALESCE_SECONDS = 0.03
"""Debounce interval, in seconds: if a thousand ranks stop at once, their changes are reported together."""


class Threads:
    """The ranks of a window as threads; follows the broker's lists from :meth:`start` on."""

    def __init__(self, window: Window, *, resumes_by_itself: bool = False) -> None:
        self.table = ThreadTable()
        self._resumes_by_itself = resumes_by_itself
        self._shown: set[str] = set()
        """Keys of ranks that were last reported as stopped, and that the IDE has not moved since then."""
        self.focus: RankInfo | None = None
        """The rank that the IDE selected, or was told to select, most recently."""
        self._window = window
        self._is_begun = False
        self._due: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._is_away = False
        self._known: dict[str, RankInfo] = {}
        self._patient_until = 0.0
        self._reported_passed: dict[str, str] = {}
        """The most recent stop that each rank has skipped, as reported to the IDE, by rank key."""

    def start(self) -> None:
        """Report stopped ranks to the IDE now, and all changes from now on."""
        self._is_begun = True
        self.refresh()
        rest = len(self._window.ranks) - len(self.table.listed)
        if rest > 0:
            self._window.write(f"{rest} more ranks will be listed when they stop; the debug console asks all of them.")

    # ------------------------------------------------------------------------------------------------------ the broker

    async def receive(self, event: Event) -> None:
        """Handle an event from the broker."""
        if isinstance(event, Down):
            if not self._is_away:
                self._window.write(f"The broker is gone, reconnecting ({printable(event.reason)}).")
            self._is_away = True
        elif isinstance(event, Up):
            if self._is_away:
                self._window.write("The broker is back.")
            self._is_away = False
            # After a restart the broker lists the same ranks again when they reconnect, so keep them until then.
            loop = asyncio.get_running_loop()
            self._patient_until = loop.time() + LOST_SECONDS
            self._late = loop.call_later(LOST_SECONDS, self.refresh)
        elif isinstance(event, LISTS) and self._due is None:
            self._due = asyncio.get_running_loop().call_later(COALESCE_SECONDS, self.refresh)

    def refresh(self) -> None:
        """Report changes since the last refresh to the IDE now."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if not self._is_begun:
            return
        try:
            ranks = self._with_absent(self._window.ranks)
        except DbgError as error:
            self._window.write(str(error), "important")
            return
        for thread_event in self.table.update(ranks):
            self._report_changes(thread_event)
        self._report_passed(ranks)

    def close(self) -> None:
        """Stop reporting."""
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

    def rank_of_key(self, key: str) -> RankInfo | None:
        """Return the rank with this key as listed now, or as listed before the connection to the broker was lost."""
        return self._window.switchboard.directory.by_key.get(key) or self._known.get(key)

    def rank(self, thread: object) -> RankInfo:
        """Return the rank with this thread number. Raises BadInput if it is gone."""
        key = self.table.key(thread)
        rank = self.rank_of_key(key) if key is not None else None
        if rank is None:
            raise BadInput("this rank is not connected any more", "choose another thread")
        return rank

    def stopped_rank(self, thread: object) -> RankInfo:
        """Return the stopped rank with this thread number. Raises BadInput if it is running or gone."""
        rank = self.rank(thread)
        if not self.table.is_stopped(rank.key):
            raise BadInput(f"{printable(rank.address)} is running", "pause it first")
        return rank

    def start_move(self, rank: RankInfo, *, is_step: bool) -> None:
        """Record that the IDE moves a rank, and select that rank."""
        self.focus = rank
        self._shown.discard(rank.key)
        self.table.start_move(rank.key, is_step=is_step)

    # ----------------------------------------------------------------------------------------------------------- inner

    def _report_changes(self, thread_event: ThreadEvent) -> None:
        if not isinstance(thread_event, Stopped):
            self._shown.discard(self.table.key(thread_event.thread) or "")
        if isinstance(thread_event, Continued) or (isinstance(thread_event, Exited) and self._resumes_by_itself):
            # Without this event nvim-dap would keep an exited rank as its stopped thread.
            self._window.event("continued", {"threadId": thread_event.thread, "allThreadsContinued": False})
        if isinstance(thread_event, (Started, Exited)):
            reason = "started" if isinstance(thread_event, Started) else "exited"
            self._window.event("thread", {"reason": reason, "threadId": thread_event.thread})
        elif isinstance(thread_event, Stopped):
            self._report_stop(thread_event)

    def _report_stop(self, thread_event: Stopped) -> None:
        rank = self.rank(thread_event.thread)
        focus = self.focus if self.focus is not None and self.table.is_stopped(self.focus.key) else rank
        is_awaited = thread_event.is_ours and self.focus is not None and self.focus.key == rank.key
        keeps_focus = not thread_event.is_ours and focus.key != rank.key
        if not keeps_focus:
            self.focus = rank
        body = {
            "reason": "pause" if not is_awaited and self._would_go_on(rank) else thread_event.reason,
            "description": thread_event.description,
            "threadId": thread_event.thread,
            "allThreadsStopped": False,
            "preserveFocusHint": keeps_focus,
        }
        self._shown.add(rank.key)
        self._window.event("stopped", {**body, "text": safe_text(thread_event.text)} if thread_event.text else body)

    def _would_go_on(self, rank: RankInfo) -> bool:
        """Return True if the IDE would resume a rank by itself when the rank is reported as stopped.

        nvim-dap does this while its current thread is another rank, unless the reason of the stop is ``pause``.
        """
        return self._resumes_by_itself and any(self.table.is_stopped(key) for key in self._shown - {rank.key})

    def _with_absent(self, ranks: tuple[RankInfo, ...]) -> tuple[RankInfo, ...]:
        """Return the ranks and, for LOST_SECONDS after the broker is back, known ranks that it does not list yet."""
        listed = self._window.switchboard.directory.by_key
        if asyncio.get_running_loop().time() < self._patient_until:
            ranks += tuple(rank for key, rank in self._known.items() if key not in listed)
        self._known = {rank.key: rank for rank in ranks}
        return ranks

    def _report_passed(self, ranks: tuple[RankInfo, ...]) -> None:
        """Report each stop that a rank has skipped, and report it only once."""
        passed = {rank.key: rank.passed for rank in ranks if rank.passed}
        for rank in ranks:
            if rank.passed and self._reported_passed.get(rank.key) != rank.passed:
                self._window.write(printable(f"{rank.address} passed {rank.passed}"))
        self._reported_passed = passed
