"""Terminal of ``run``: shows the job's output, and a session whenever one of its ranks stops.

The terminal follows one job until the job has ended. Ctrl-C is passed to the job by a handler of :class:`JobProcess`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dbg_client.core.choose import Choice, is_ready, ranks_of
from dbg_client.core.switchboard import DIAL_EVERY_SECONDS, Switchboard, switchboard_to
from dbg_client.core.wait_progress import cancel_and_wait
from dbg_client.run.job_output import JobOutput
from dbg_client.run.job_process import JobProcess
from dbg_client.run.options import Task
from dbg_client.shell.streams import notify
from dbg_client.terminal.attach import Attaching, read_startup
from dbg_client.terminal.session import End, SessionOutcome, how_it_ended
from dbg_client.terminal.verb import Attach
from dbg_client.views.ages import show_duration
from dbg_command.targets import Target, parse_target, select
from dbg_wire.errors import AmbiguousTarget, BrokerUnreachable, DbgError, FileTimeout, NoSuchRank, printable
from dbg_wire.messages import Action
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState, rank_order

if TYPE_CHECKING:
    from dbg_client.run.verb import Run

STDIN = 0

END_SECONDS = 10.0
"""Seconds from SIGTERM to a job until SIGKILL: launchers take up to five to end all their ranks, and stopped ranks
don't react to SIGTERM."""

GOODBYE_SECONDS = 1.0
"""Time in seconds that ranks have to disconnect after their job's end; then they are reported as still alive."""

CHECK_SECONDS = 1.0
"""Interval between two progress checks, in seconds."""

STILL_SECONDS = 10.0
"""Time without news of the ranks after which progress is reported once, in seconds.

Without this report, a user could wait for a stop that no rank ever reaches.
"""

SAME_RANK_SECONDS = 1.0
"""Seconds to wait for the next stop of a resumed rank, before the terminal attaches to another stopped rank.

In a short loop, the rank stops again within this time.
"""

COMES_BACK = "press Enter to return"
"""Hint for a user who has left a stop."""


class RunningJob:
    """The job as seen by its terminal; ``over`` is set once it has ended."""

    def __init__(self, process: JobProcess, task: Task) -> None:
        self.task = task
        self.over = asyncio.Event()
        self.switchboard: Switchboard | None = None
        """The connection to the broker, once there is one."""
        self._process = process
        self._ending: asyncio.Future[None] | None = None
        asyncio.get_running_loop().add_reader(process, self._has_ended)

    def follow_signals(self) -> None:
        """Install the signal handlers again after a session, which has replaced them."""
        self._process.catch_signals()

    def end(self) -> None:
        """End the job, by force if it takes long; a second call does nothing."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end_in_time())

    def end_hung(self) -> None:
        """End the job because it hangs."""
        self.task.is_hung = not self.over.is_set()
        self.end()

    async def close(self) -> None:
        """Stop watching the job."""
        asyncio.get_running_loop().remove_reader(self._process)
        if self._ending is not None:
            await cancel_and_wait(self._ending)

    def living(self) -> list[RankInfo]:
        """Return the live ranks that the broker has listed."""
        ranks = () if self.switchboard is None else ranks_of(self.task.job, self.switchboard.directory.ranks)
        return [rank for rank in ranks if rank.state in LIVE_STATES]

    async def _kill(self) -> None:
        """Kill the job's ranks on all hosts."""
        from dbg_client.core.asking import Asker  # rarely needed

        if self.switchboard is not None and (living := self.living()):
            with contextlib.suppress(DbgError):
                await Asker(self.switchboard).ask(Action.KILL, living)

    async def _end_in_time(self) -> None:
        # A suspended process (Ctrl-Z, for instance) handles SIGTERM only after SIGCONT.
        self._process.signal(signal.SIGTERM, signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), END_SECONDS)
            return
        await self._kill()
        self._process.signal(signal.SIGKILL)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process)
        self._process.wait()
        self.over.set()


async def follow_job(settings: Run, task: Task, process: JobProcess) -> None:
    """Follow the job of a run until it has ended."""
    run = RunningJob(process, task)
    output = JobOutput(task.output)
    output.show()
    watching = _watch_for_hang(settings, run)
    try:
        await _follow(settings, run, output)
        await run.over.wait()
    finally:
        if watching is not None:
            await cancel_and_wait(watching)
        output.finish()
        await run.close()


def _watch_for_hang(settings: Run, run: RunningJob) -> asyncio.Future[None] | None:
    """Start the hang watch, if requested."""
    if run.task.hang_after is None:
        return None
    from dbg_client.run.hang_watch import HangWatch  # few runs need it

    return asyncio.ensure_future(HangWatch(settings.broker, run.task, run.end_hung).go())


async def _follow(settings: Run, run: RunningJob, output: JobOutput) -> None:
    """Keep a connection to the broker until the job has ended, and attach to its stops if there is a terminal."""
    attaches = run.task.attach
    try:
        commands = settings.attach.commands if attaches else None
        startup = await asyncio.to_thread(read_startup, commands)
        run.switchboard = switchboard = await _opened(settings, run, output)
        if switchboard is None:
            return
        try:
            if attaches:
                attach = Attach(broker=settings.broker, attach=settings.attach, color=settings.color)
                attaching = Attaching(attach, switchboard, startup)
                await _Following(run, output, switchboard, attaching).go()
            await run.over.wait()
        finally:
            await switchboard.close()
    except DbgError as error:
        notify(f"dbg-attach: {error}; the job continues without this terminal")


async def _opened(settings: Run, run: RunningJob, output: JobOutput) -> Switchboard | None:
    """Return a switchboard that knows the ranks, or None if the job has ended before the broker answers.

    It retries, because ranks stay stopped while their broker is slow or suspended. Raises DbgError if another attempt
    would not help, such as for a wrong token.
    """
    over = asyncio.ensure_future(run.over.wait())
    reported = ""
    try:
        while not over.done():
            switchboard = switchboard_to(settings.broker.address, settings.broker.timeout)
            opening = asyncio.ensure_future(switchboard.open())
            await asyncio.wait([opening, over], return_when=asyncio.FIRST_COMPLETED)
            try:
                if opening.done():
                    await opening
                    return switchboard
                await cancel_and_wait(opening)
            except (BrokerUnreachable, FileTimeout) as error:
                sentence = f"dbg-attach: {error}; this terminal keeps trying"
                if sentence != reported:
                    output.print_line(sentence)
                reported = sentence
                await asyncio.wait([over], timeout=DIAL_EVERY_SECONDS)
        return None
    finally:
        await cancel_and_wait(over)


class _Following:
    """Loop that follows a job from stop to stop."""

    def __init__(
        self,
        run: RunningJob,
        output: JobOutput,
        switchboard: Switchboard,
        attaching: Attaching,
    ) -> None:
        self._run, self._output = run, output
        self._switchboard, self._attaching, self._directory = switchboard, attaching, switchboard.directory
        self._target = parse_target(run.task.ranks)
        self._left: dict[str, float] = {}
        self._wanted: int | None = None
        self._come_back = asyncio.Event()
        self._last_left: str | None = None
        self._back_to: str | None = None
        self._had_stop = False
        self._printed: set[str] = set()

    async def go(self) -> None:
        """Attach to each stop, until the job has ended or the terminal is gone."""
        await self._switchboard.listed()
        hangup = signal.getsignal(signal.SIGHUP)
        while True:
            # A detached session ignores SIGHUP; between two sessions, closing the window must end this process.
            signal.signal(signal.SIGHUP, hangup)
            if not os.isatty(STDIN):
                os.kill(os.getpid(), signal.SIGHUP)
                return
            rank = await self._unless_over()
            if rank is None:
                await self._report_remaining_ranks()
                return
            self._output.hide()
            self._take(await self._attaching.session(Choice(rank)))
            self._run.follow_signals()
            self._output.show()

    async def _unless_over(self) -> RankInfo | None:
        """Return the next stop to attach to, or None if the job ends before."""
        loop = asyncio.get_running_loop()
        if self._left:
            # After the user has left a stop, a message offers Enter. Until then, input belongs to the user's shell.
            loop.add_reader(STDIN, self._typed)
        over = asyncio.ensure_future(self._run.over.wait())
        reporting = asyncio.ensure_future(self._print_progress(loop.time()))
        try:
            while (rank := await self._search(over)) is None and not over.done():
                # Enter was typed: return to the stops that the user has left, the most recently left one first.
                loop.remove_reader(STDIN)
                self._come_back.clear()
                self._left.clear()
                self._back_to = self._last_left
        finally:
            loop.remove_reader(STDIN)
            await cancel_and_wait(over, reporting)
        if rank is not None:
            # Discard what was typed before, which was not meant for the debugger.
            with contextlib.suppress(termios.error):
                termios.tcflush(STDIN, termios.TCIFLUSH)
        return rank

    async def _print_progress(self, began: float) -> None:
        """Report progress once nothing has changed for a while."""
        loop, task = asyncio.get_running_loop(), self._run.task
        before, since = "", began
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = loop.time()
            ranks = ranks_of(task.job, self._directory.ranks)
            sentence = progress(ranks, task.stops, task.ranks, had_stop=self._had_stop)
            if sentence != before:
                before, since = sentence, now
            elif now - since >= STILL_SECONDS and sentence not in self._printed and not self._had_stop:
                self._printed.add(sentence)
                self._output.print_line(f"dbg-attach: {sentence} ({show_duration(now - began)})")

    async def _search(self, over: asyncio.Future[Any]) -> RankInfo | None:
        """Return the next stop, or None if the job has ended or the user requests another search."""
        searching: asyncio.Future[RankInfo] = asyncio.ensure_future(self._next_stop())
        coming_back: asyncio.Future[Any] = asyncio.ensure_future(self._come_back.wait())
        try:
            await asyncio.wait([searching, coming_back, over], return_when=asyncio.FIRST_COMPLETED)
            return searching.result() if searching.done() and not over.done() else None
        finally:
            await cancel_and_wait(searching, coming_back)

    async def _next_stop(self) -> RankInfo:
        rank, is_clear = await self._switchboard.until(partial(self._pick, clear=False), None, self._output.print_line)
        if is_clear or self._wanted is None:
            return rank
        try:
            clear = partial(self._pick, clear=True)
            return (await self._switchboard.until(clear, SAME_RANK_SECONDS, self._output.print_line))[0]
        except TimeoutError:
            # The resumed rank did not stop in time. The stop found before may have ended by now, so search again.
            self._wanted = None
            return await self._next_stop()

    def _pick(self, *, clear: bool) -> tuple[RankInfo, bool] | None:
        """Return the next stop and whether to attach to it at once, or None if there is no stop.

        With ``clear``, also return None if the terminal should not attach to the stop at once.
        """
        if not self._directory.complete:
            return None
        ranks = ranks_of(self._run.task.job, self._directory.ranks)
        self._run.task.took_part |= bool(ranks)
        rank, is_clear = next_stop(self._target, ranks, self._left, self._wanted, self._back_to)
        return (rank, is_clear) if rank is not None and (is_clear or not clear) else None

    def _take(self, outcome: SessionOutcome) -> None:
        """Record how a session ended."""
        rank = outcome.rank
        self._had_stop = True
        self._wanted = self._back_to = None
        if outcome.loss is not None:
            notify(outcome.loss)
        if outcome.end is End.WENT_ON:
            self._wanted = rank.rank
            notify(f"{how_it_ended(outcome)}; waiting for the next stop.")
        elif outcome.end is End.DETACHED:
            self._leave(rank)
            notify(f"Detached from {printable(rank.address)}, which stays as it is; {COMES_BACK}.")
        else:
            self._left[rank.key] = rank.stop_id
            notify(f"{how_it_ended(outcome)}.")

    def _leave(self, rank: RankInfo) -> None:
        """Ignore all present stops: a user who leaves one wants a new stop, not the next of a hundred present ones."""
        self._left = {each.key: each.stop_id for each in (rank, *self._stopped)}
        self._last_left = rank.key

    def _typed(self) -> None:
        """Read a line of input: Enter requests a stop that was left."""
        try:
            typed = os.read(STDIN, 4096)
        except OSError:
            typed = b""
        if typed:
            self._come_back.set()
        else:
            asyncio.get_running_loop().remove_reader(STDIN)

    async def _report_remaining_ranks(self) -> None:
        job = self._run.task.job
        if left := len(await self._wait_for_goodbyes()):
            several = f"{left} ranks of it are" if left > 1 else "a rank of it is"
            self._output.print_line(
                f"The command has ended, and {several} still alive: `dbg-attach list {job}/all` lists them, "
                f"`dbg-attach kill {job}/all` ends them."
            )

    async def _wait_for_goodbyes(self) -> list[RankInfo]:
        """Return the ranks that are still connected a short time after the end of their job."""

        def gone() -> bool | None:
            return not self._run.living() or None

        with contextlib.suppress(TimeoutError):
            await self._switchboard.until(gone, GOODBYE_SECONDS)
        return self._run.living()

    @property
    def _stopped(self) -> list[RankInfo]:
        return [rank for rank in ranks_of(self._run.task.job, self._directory.ranks) if is_ready(rank)]


def progress(ranks: Sequence[RankInfo], stops: Sequence[str], target: str, *, had_stop: bool) -> str:
    """Return a sentence on the progress of a job's ranks while no stop is reached. Pure.

    ``stops`` are the requested stops, ``target`` the ranks whose stops are followed; ``had_stop`` means that a rank has
    stopped before.
    """
    own = [rank for rank in ranks if rank.child is None]
    if not own:
        return "no rank has connected yet"
    there = {rank.rank for rank in own if rank.state in LIVE_STATES}
    ended = {rank.rank for rank in own if rank.state is RankState.EXITED} - there
    size = max([rank.world_size or 0 for rank in own] + [len(there | ended)])
    of = f"of {size} rank{'s' * (size > 1)}"
    if passed := [rank for rank in own if rank.passed]:
        return f"{len(passed)} {of} passed {printable(passed[0].passed)}"
    sentence = f"{len(there)} {of} connected"
    if ended:
        sentence += f", {len(ended)} ha{'s' if len(ended) == 1 else 've'} ended"
    stopped = [rank for rank in own if rank.state is RankState.STOPPED]
    if stopped and target != "all":
        sentence += f", {len(stopped)} stopped, waiting for {printable(target)}"
    elif len(there) == size and not had_stop:
        sentence += f", none has stopped{f' at {printable(stops[0])}' if len(stops) == 1 else ''}"
    return sentence


def next_stop(
    target: Target,
    ranks: Sequence[RankInfo],
    left: Mapping[str, float],
    resumed: int | None,
    back_to: str | None = None,
) -> tuple[RankInfo | None, bool]:
    """Return the stop to attach to or None, and whether to attach at once instead of waiting for rank ``resumed``.

    ``ranks`` are the job's ranks, ``left`` the stops that the user has left: each rank's key and ``stop_id``.
    ``resumed`` is the number of the rank that the user has just resumed. ``back_to`` is the key of a rank to which the
    user returns, even if the target does not include that rank. Among stopped ranks, the order is: ``back_to``, then
    ``resumed``, then the lowest rank.
    """
    try:
        found = {rank.key for rank in select(target, ranks).ranks}
    except (NoSuchRank, AmbiguousTarget):
        found = set()
    ready = [
        rank
        for rank in ranks
        if (rank.key in found or rank.key == back_to) and is_ready(rank) and left.get(rank.key) != rank.stop_id
    ]
    if not ready:
        return None, False
    first = min(ready, key=lambda rank: (rank.key != back_to, rank.rank != resumed, rank_order(rank)))
    return first, resumed is None or first.key == back_to or first.rank == resumed or _is_gone(resumed, ranks)


def _is_gone(resumed: int, ranks: Sequence[RankInfo]) -> bool:
    """Return True if the resumed rank is listed, but no longer alive."""
    states = [rank.state for rank in ranks if rank.rank == resumed]
    return bool(states) and not any(state in LIVE_STATES for state in states)
