"""Publisher of ranks and verdicts to all pages; each message is encoded once for all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from dbg_client.core.asking import Asker
from dbg_client.core.directory import LISTS
from dbg_client.core.link import Down, Event, Up
from dbg_client.core.switchboard import Switchboard
from dbg_client.web import messages
from dbg_client.web.outbox import Outbox
from dbg_client.web.rows import Rows, verdicts_of
from dbg_client.why.hang_detector import HangDetector, ask_where
from dbg_client.why.questions import find_case, hangs_in
from dbg_command.targets import Target
from dbg_dial.tcp import within
from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

if TYPE_CHECKING:
    from dbg_client.why.explain import Explanation

ROWS_PER_PAGE = 500
"""Maximum rows in one message: a browser reads that many within some milliseconds."""

ROUND_SECONDS = 0.1
"""Seconds for which a rank's changes are collected into one row, because people could not see each of them."""

REST_OF_ROUND = 10
"""Pause after a round of changes, as a multiple of the time to send the round. 10,000 ranks take 0.1 s."""

HANG_SECONDS = 60.0
"""Time without progress of any rank after which a job is considered hung, in seconds."""

LOOKS = 3
"""Number of samples of a job in HANG_SECONDS. A sample makes each rank read its flight recorder for milliseconds."""


class Feed:
    """Publisher of one target's ranks, verdicts and broker connection to all pages. Belongs to one event loop."""

    def __init__(self, switchboard: Switchboard, target: Target | None, hello: Callable[[], messages.Hello]) -> None:
        self.rows = Rows(target)
        self.pages: set[Outbox] = set()
        self._hello = hello
        self._switchboard = switchboard
        self._round: asyncio.TimerHandle | None = None
        self._rested_at = 0.0
        self._link = messages.Link(up=True, reason="")
        self.opened = asyncio.Event()
        """Set when a page has opened."""
        self._verdicts: dict[str, messages.Verdict] = {}
        self.rows.choose(switchboard.directory.ranks)
        self._job = self.rows.job

    # ----------------------------------------------------------------------------------------------------- pages

    def join(self, page: Outbox) -> None:
        """Send the current state to a page, and subscribe it to updates."""
        page.send(self._hello(), self._link, self._job)
        *earlier, last = _paged(self.rows.all) or [()]
        page.send(*(messages.Ranks(rows=rows, last=False) for rows in earlier), messages.Ranks(rows=last, last=True))
        page.send(*self._verdicts.values())
        self.pages.add(page)
        self.opened.set()

    def leave(self, page: Outbox) -> None:
        """Unsubscribe a page."""
        self.pages.discard(page)

    def send(self, item: messages.ToPage) -> None:
        """Send a message to all pages."""
        text = messages.encode(item)
        for page in self.pages:
            page.put(text)

    def is_judged(self, job: str) -> bool:
        """Return True if there is a verdict on a job."""
        return job in self._verdicts

    def judge(self, verdict: messages.Verdict) -> None:
        """Publish a verdict, or its removal when the job has moved again."""
        if not verdict.verdicts:
            if self._verdicts.pop(verdict.job, None) is None:
                return
        else:
            self._verdicts[verdict.job] = verdict
        self.send(verdict)

    # ------------------------------------------------------------------------------------------------ the broker

    async def receive(self, event: Event) -> None:
        """Handle an event of the broker, which the directory has already stored."""
        if isinstance(event, (Up, Down)):
            self._link_changed(event)
        elif isinstance(event, LISTS) and self._switchboard.directory.complete and self._round is None:
            loop = asyncio.get_running_loop()
            self._round = loop.call_at(max(loop.time() + ROUND_SECONDS, self._rested_at), self._make_round)

    def close(self) -> None:
        """Cancel the next round of changes."""
        if self._round is not None:
            self._round.cancel()

    def _link_changed(self, event: Up | Down) -> None:
        reason = "" if isinstance(event, Up) else printable(event.reason)
        link = messages.Link(up=isinstance(event, Up), reason=reason)
        if link != self._link:
            self._link = link
            self.send(link)

    def _make_round(self) -> None:
        """Send the changes since the last round to the pages."""
        self._round, loop = None, asyncio.get_running_loop()
        began = loop.time()
        changes = self.rows.choose(self._switchboard.directory.ranks)
        if self.rows.job != self._job:
            self._job = self.rows.job
            self.send(self._job)
        for rows in _paged(changes.rows):
            self.send(messages.Change(rows=rows))
        if changes.gone:
            self.send(messages.Change(rows=(), gone=changes.gone))
        ended = loop.time()
        self._rested_at = ended + REST_OF_ROUND * (ended - began)


def _paged(rows: tuple[msgspec.Raw, ...]) -> list[tuple[msgspec.Raw, ...]]:
    return [rows[start : start + ROWS_PER_PAGE] for start in range(0, len(rows), ROWS_PER_PAGE)]


def hang_verdicts(found: Explanation, known: Sequence[RankInfo], *, unmoved: bool = False) -> list[messages.Verdict]:
    """Return the verdict message for each job that hangs; ``unmoved`` means that samples show no progress of ranks."""
    messages_sent = []
    for worst in hangs_in(found.verdicts, known, unmoved=unmoved):
        own = verdicts_of([verdict for verdict in found.verdicts if verdict.job == worst.job], harmless=False)
        missing = tuple(rank.key for rank in found.missing if rank.job == worst.job)
        messages_sent.append(messages.Verdict(job=worst.job, verdicts=own, missing=missing))
    return messages_sent


class VerdictWatch:
    """Periodic check of each job of a feed, until cancelled; it asks no ranks while no page is open.

    A verdict stays until a sample shows progress in the job, so a page that opens receives the verdict at once.
    """

    def __init__(self, switchboard: Switchboard, feed: Feed, seconds: float = HANG_SECONDS) -> None:
        self._switchboard, self._feed, self._seconds = switchboard, feed, seconds
        self._asker = Asker(switchboard)
        self._detectors: defaultdict[str, HangDetector] = defaultdict(lambda: HangDetector(seconds))

    async def run(self) -> None:
        """Sample each job ``LOOKS`` times per HANG_SECONDS, and also at once when a page opens."""
        opened, is_opened = self._feed.opened, False
        while True:
            with contextlib.suppress(TimeoutError):
                await within(self._seconds / LOOKS, opened.wait())
            is_opened = is_opened or opened.is_set()
            opened.clear()
            if not self._feed.pages or not self._switchboard.is_current:
                continue
            jobs: defaultdict[str, list[RankInfo]] = defaultdict(list)
            for rank in self._feed.rows.ranks:
                if rank.state in LIVE_STATES and not rank.is_classic:
                    jobs[rank.job].append(rank)
            for job in [job for job in self._detectors if job not in jobs]:
                del self._detectors[job]
                self._feed.judge(messages.Verdict(job=job))
            for job, ranks in jobs.items():
                # A missing answer proves nothing about the ranks; the next sample may have one.
                with contextlib.suppress(DbgError):
                    await self._refresh(job, ranks, is_opened=is_opened)
            is_opened = False

    async def _refresh(self, job: str, ranks: Sequence[RankInfo], *, is_opened: bool) -> None:
        detector = self._detectors[job]
        answers = await ask_where(self._asker, ranks)
        messages_sent: list[messages.Verdict] = []
        if answers is None:
            detector.start_again()
        else:
            detector.look(answers, asyncio.get_running_loop().time())
            # A job that has a verdict gets a new one: without an open page no samples are taken, so the job may have
            # moved unnoticed, and hang again for another reason.
            is_same = self._feed.is_judged(job) and not detector.is_moving
            if is_opened or is_same or detector.is_reported:
                messages_sent = await self._judge(ranks, unmoved=detector.is_reported)
        if not messages_sent:
            self._feed.judge(messages.Verdict(job=job))
        for verdict in messages_sent:
            self._feed.judge(verdict)

    async def _judge(self, ranks: Sequence[RankInfo], *, unmoved: bool) -> list[messages.Verdict]:
        known = self._switchboard.directory.ranks
        _, found = await find_case(self._asker, ranks, known)
        return hang_verdicts(found, known, unmoved=unmoved)
