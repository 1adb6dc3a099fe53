"""Periodic check of a run's ranks: once no rank moves any more, reports the cause, and ends the job if requested."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dbg_client.after.report import last_lines, make_report, write_hang_report
from dbg_client.core.asking import Asker
from dbg_client.core.choose import ranks_of
from dbg_client.core.errors import CantWrite
from dbg_client.core.switchboard import DIAL_EVERY_SECONDS, switchboard_to
from dbg_client.core.wait_progress import show_nobody
from dbg_client.run.options import END, Task
from dbg_client.shell.streams import notify
from dbg_client.verbs.verb import Asking, BrokerOptions
from dbg_client.verbs.where import Where
from dbg_client.views.ages import show_age
from dbg_client.why.hang_detector import HangDetector, ask_where
from dbg_client.why.questions import judge
from dbg_client.why.show import show_verdicts
from dbg_client.why.verdict import BUSY_STATUS, UNKNOWN_STATUS, exit_status
from dbg_wire.errors import BrokerUnreachable, DbgError, FileTimeout, printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo

if TYPE_CHECKING:
    from dbg_client.why.explain import HangEvidence

LOOKS = 3
"""Number of samples within the time after which a job is considered hung."""

SHORTEST_SECONDS = 1.0
"""Minimum interval between samples, in seconds: for each one, ranks read their flight recorder for milliseconds."""

LONGEST_SECONDS = 60.0
"""Maximum interval between samples, in seconds, so that a hang is reported soon."""

SILENT_SECONDS = 60.0
"""Time without an answer of the broker, in seconds, after which this is reported."""


class HangWatch:
    """Monitor of a task's job, with its own connection, independent of the user's sessions.

    Findings are appended to the job's output, which the run's terminal shows. If the task requests it, a report is
    written next to that file, and ``end_job`` is called.
    """

    def __init__(self, broker: BrokerOptions, task: Task, end_job: Callable[[], None] = lambda: None) -> None:
        self._switchboard = switchboard_to(broker.address, broker.timeout)
        self._directory = self._switchboard.directory
        self._asker = Asker(self._switchboard)
        self._task, self._end_job = task, end_job
        self._seconds = task.hang_after or 0.0
        self._detector = HangDetector(self._seconds)
        self._heard_at = 0.0
        self._silence_is_reported = False

    async def go(self) -> None:
        """Watch until cancelled. If the broker refuses this terminal, report that and return."""
        try:
            self._heard_at = self._now
            await self._dial()
            self._heard_at = self._now
            while True:
                await self._let_time_pass()
                try:
                    await self._check_ranks()
                except DbgError:
                    # A missing answer proves nothing about the ranks. Continue, because the broker may answer later.
                    await self._note_silence()
        except DbgError as error:
            notify(f"dbg-attach: {error}; hangs will not be reported")
        finally:
            await self._switchboard.close()

    async def _dial(self) -> None:
        """Try to connect until the broker answers: a slow or suspended broker may answer later."""
        while True:
            try:
                await self._switchboard.dial()
                return
            except (BrokerUnreachable, FileTimeout):
                await self._note_silence()
                await asyncio.sleep(DIAL_EVERY_SECONDS)

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _let_time_pass(self) -> None:
        await asyncio.sleep(max(min(self._seconds / LOOKS, LONGEST_SECONDS), SHORTEST_SECONDS))

    async def _note_silence(self) -> None:
        """Report, only once, that the broker does not answer and that a hang would therefore not be noticed."""
        silent = self._now - self._heard_at
        if silent >= max(self._seconds, SILENT_SECONDS) and not self._silence_is_reported:
            self._silence_is_reported = True
            job = printable(self._task.job)
            what = f"the broker has not answered for {show_age(silent)}, so a hang of {job} would not be noticed"
            await asyncio.to_thread(self._write, f"dbg-attach: {what}\n")

    async def _check_ranks(self) -> None:
        if not self._switchboard.is_current:
            self._detector.start_again()
            await self._note_silence()
            return
        ranks = self._living
        answers = await ask_where(self._asker, ranks)
        self._heard_at, self._silence_is_reported = self._now, False
        if answers is None:
            self._detector.start_again()
            return
        if self._detector.look(answers, self._now):
            await self._report_hang(ranks)

    @property
    def _living(self) -> list[RankInfo]:
        return [rank for rank in ranks_of(self._task.job, self._directory.ranks) if rank.state in LIVE_STATES]

    async def _report_hang(self, ranks: Sequence[RankInfo]) -> None:
        case, found = await judge(self._asker, ranks, self._directory.ranks, unmoved=True)
        status = exit_status(found.verdicts)
        if status == BUSY_STATUS:
            # The verdict shows that a rank has moved after all.
            self._detector.start_again()
            return
        why = show_verdicts(found.verdicts, color=False)
        if status == UNKNOWN_STATUS:
            # If the hang is unexplained, add the stacks of the ranks, because they may be gone later.
            with contextlib.suppress(DbgError):
                why += (await Where().ask(self._asking(ranks))).text()
        job = printable(self._task.job)
        head = f"no rank of {job} has moved for {show_age(self._seconds)}"
        if self._task.on_hang is not None:
            why += f"dbg-attach: {await self._report(case)}\n"
        await asyncio.to_thread(self._write, f"dbg-attach: {head}\n{why}")
        if self._task.on_hang == END:
            await self._end(ranks)

    async def _report(self, case: HangEvidence) -> str:
        """Write the report next to the job's output; return a sentence with its path, or with the error."""
        known = ranks_of(self._task.job, self._directory.ranks)
        try:
            output = await asyncio.to_thread(last_lines, self._task.output)
            target = f"{self._task.job}/all"
            text = await make_report(target, self._asking(known), time.time(), case=case, output=output)
            path = await asyncio.to_thread(write_hang_report, self._task.output, text)
        except CantWrite as error:
            return f"no report: {error.path} can't be written ({error.reason}); the text above is all there is"
        except DbgError as error:
            return f"no report: {error}"
        return f"the report is in {printable(path)}; to read it again, use dbg-attach why"

    async def _end(self, ranks: Sequence[RankInfo]) -> None:
        """End the job, unless a rank has moved while the report was written."""
        # Without an answer, rely on the previous sample, in which the job did not move.
        with contextlib.suppress(DbgError):
            self._detector.look(await ask_where(self._asker, ranks) or (), self._now)
        job = printable(self._task.job)
        if not self._detector.is_reported:
            await asyncio.to_thread(self._write, f"dbg-attach: {job} has moved again, and is not ended\n")
            return
        await asyncio.to_thread(self._write, f"dbg-attach: ending {job}, as --on-hang end requests\n")
        self._end_job()

    def _asking(self, ranks: Sequence[RankInfo]) -> Asking:
        board = self._switchboard
        return Asking(
            asker=self._asker,
            ranks=ranks,
            known=self._directory.ranks,
            show=show_nobody,
            url=board.url,
            welcome=board.welcome,
        )

    def _write(self, text: str) -> None:
        try:
            append(self._task.output, text)
        except OSError:
            notify(text.rstrip("\n"))


def append(path: str, text: str) -> None:
    """Append whole lines to a file that a job writes to, after a line break if needed. Blocks. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        is_within_line = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        lines = f"\n{text}" if is_within_line else text
        os.write(file, lines.encode("utf-8", "replace"))
    finally:
        os.close(file)
