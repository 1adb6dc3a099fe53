"""Why ranks wait, without being asked: a look at each job when a page opens, and now and then while one is open."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbg_client.core.asking import Asker
from dbg_client.web.messages import Verdict
from dbg_client.web.rows import verdicts_of
from dbg_client.why.questions import find_case, hangs_among
from dbg_client.why.sentences import sentence_of
from dbg_client.why.standstill import Standstill, ask_where
from dbg_dial.tcp import within
from dbg_wire.errors import DbgError
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

if TYPE_CHECKING:
    from dbg_client.core.switchboard import Switchboard
    from dbg_client.web.feed import Feed
    from dbg_client.why.explain import Explanation

HANG_SECONDS = 60.0
"""Seconds without a move of any rank after which a job counts as hanging."""

LOOKS = 3
"""Looks within that time; each makes the ranks read their flight recorders, which takes milliseconds."""


def told_of(found: Explanation, known: Sequence[RankInfo], *, stands: bool = False) -> list[tuple[str, Verdict]]:
    """Return the worst sentence on each job that hangs, and what pages get; with ``stands`` no rank of it moves."""
    told = []
    for worst in hangs_among(found.verdicts, known, stands=stands):
        own = [verdict for verdict in found.verdicts if verdict.job == worst.job]
        missing = tuple(rank.key for rank in found.missing if rank.job == worst.job)
        told.append(
            (sentence_of(worst), Verdict(job=worst.job, verdicts=verdicts_of(own, harmless=False), missing=missing))
        )
    return told


class VerdictWatch:
    """Look at each job of a feed until this is cancelled; nobody is asked while no page is open.

    A verdict stays until a look finds that the job moves: a page that opens has it at once.
    """

    def __init__(self, switchboard: Switchboard, feed: Feed, seconds: float = HANG_SECONDS) -> None:
        self._switchboard, self._feed, self._seconds = switchboard, feed, seconds
        self._asker = Asker(switchboard)
        self._standing: defaultdict[str, Standstill] = defaultdict(lambda: Standstill(seconds))

    async def run(self) -> None:
        """Look again and again."""
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
            for job in [job for job in self._standing if job not in jobs]:
                del self._standing[job]
                self._feed.judge(Verdict(job=job))
            for job, ranks in jobs.items():
                # An answer that does not come says nothing of the ranks; the next look may have one.
                with contextlib.suppress(DbgError):
                    await self._look(job, ranks, is_opened=is_opened)
            is_opened = False

    async def _look(self, job: str, ranks: Sequence[RankInfo], *, is_opened: bool) -> None:
        standing = self._standing[job]
        answers = await ask_where(self._asker, ranks)
        told: list[tuple[str, Verdict]] = []
        if answers is None:
            standing.begin_anew()
        else:
            standing.look(answers, asyncio.get_running_loop().time())
            # Since the last look of an earlier page a job may have moved, and hang all the same.
            is_same = self._feed.is_judged(job) and not standing.is_moving
            if is_opened or is_same or standing.is_told:
                told = await self._judge(ranks, stands=standing.is_told)
        if not told:
            self._feed.judge(Verdict(job=job))
        for sentence, verdict in told:
            if not self._feed.is_judged(verdict.job):
                self._feed.note("hang", sentence, ranks)
            self._feed.judge(verdict)

    async def _judge(self, ranks: Sequence[RankInfo], *, stands: bool) -> list[tuple[str, Verdict]]:
        known = self._switchboard.directory.ranks
        _, found = await find_case(self._asker, ranks, known)
        return told_of(found, known, stands=stands)
