"""Look at the ranks of a run's job now and then, and say why once none of them moves any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.actions.many import show_stacks_of
from dbg_client.actions.streams import tell
from dbg_client.actions.why import show_why
from dbg_client.core.asking import Asker
from dbg_client.core.choose import ranks_of
from dbg_client.core.switchboard import switchboard_to
from dbg_client.hang.verdict import BUSY_STATUS, UNKNOWN_STATUS
from dbg_client.views.waits import show_age
from dbg_client.words.settings import BrokerOptions, Where, Why
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Action, Kind, Look, RankAnswer
from dbg_wire.records.evidence import CollectiveState, Evidence, evidence_in
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState

SLACK_SECONDS = 0.25
"""Seconds by which a look may come too early: ranks and terminal count the time between two looks on their own."""

LOOKS = 3
"""Looks within the time after which a job counts as hanging."""

SHORTEST_SECONDS = 1.0
"""Seconds between two looks at least: a look makes each rank read its flight recorder, which takes milliseconds."""

LONGEST_SECONDS = 60.0
"""Seconds between two looks at most, so that a hang is told soon after it counts as one."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """Where a rank was at a look.

    ``place`` is what would differ had it gone elsewhere, ``since`` when it was first seen there, and ``rests_since``
    since when its main thread has used no processor time; these two are in seconds.
    """

    place: Hashable
    since: float
    rests_since: float
    is_unfinished: bool


class Standstill:
    """Tell once that no rank has moved for ``seconds``, and once more only after one has moved.

    A rank has moved if its stack or a number of its collectives has changed. While no rank waits in a collective, it
    has moved as well if its main thread has used processor time. A thread that polls, or spins in a device's
    synchronisation, uses some in a hang, too: beside a rank that waits in a collective that does not count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds - SLACK_SECONDS
        self._seen: Mapping[str, _Sight] = {}
        self._is_told = False

    def begin_anew(self) -> None:
        """Forget what was seen: a debugger holds ranks, or there is none."""
        self._seen = {}
        self._is_told = False

    def look(self, answers: Sequence[RankAnswer], now: float) -> bool:
        """Take the answers of all ranks; return whether it is to be told now that none has moved."""
        before = self._seen
        self._seen = {answer.key: _see(answer, before.get(answer.key), now) for answer in answers}
        sights = self._seen.values()
        somebody_waits = any(sight.is_unfinished and now - sight.since >= self._seconds for sight in sights)
        if self._has_moved(before, somebody_waits=somebody_waits):
            self._is_told = False
        stands = bool(sights) and all(
            now - max(sight.since, 0.0 if somebody_waits else sight.rests_since) >= self._seconds for sight in sights
        )
        is_news = stands and not self._is_told
        self._is_told = self._is_told or stands
        return is_news

    def _has_moved(self, before: Mapping[str, _Sight], *, somebody_waits: bool) -> bool:
        if before.keys() != self._seen.keys():
            return True
        return any(
            sight.place != before[key].place
            or (not somebody_waits and sight.rests_since > before[key].rests_since + SLACK_SECONDS)
            for key, sight in self._seen.items()
        )


def _see(answer: RankAnswer, former: _Sight | None, now: float) -> _Sight:
    if answer.kind is not Kind.VALUE:
        # A rank that falls silent has not moved by that.
        return former or _Sight((), now, now, is_unfinished=False)
    evidence = evidence_in(answer.rows)
    place = _place_of(answer, evidence)
    return _Sight(
        place,
        since=former.since if former is not None and former.place == place else now,
        rests_since=now - (answer.age or 0.0),
        is_unfinished=evidence is not None
        and any(one.state is not CollectiveState.COMPLETED for one in evidence.collectives),
    )


def _place_of(answer: RankAnswer, evidence: Evidence | None) -> Hashable:
    if evidence is None:
        return answer.frames
    groups = tuple((one.library, one.name, one.enqueued, one.started, one.completed) for one in evidence.groups)
    collectives = tuple((one.group, one.name, one.sequence, one.state, one.peer) for one in evidence.collectives)
    return answer.frames, groups, collectives


class HangWatch:
    """Watch one job over a link of its own, beside sessions that its user may have.

    What is found is appended to the job's output, which the terminal of the run shows and the home keeps.
    """

    def __init__(self, broker: BrokerOptions, job: str, output: str, seconds: float) -> None:
        self._switchboard = switchboard_to(broker.address, broker.timeout)
        self._directory = self._switchboard.directory
        self._asker = Asker(self._switchboard)
        self._job, self._output, self._seconds = job, output, seconds
        self._standstill = Standstill(seconds)

    async def go(self) -> None:
        """Watch until this is cancelled. A broker that can't be reached is told, and ends it."""
        try:
            await self._switchboard.dial()
            while True:
                await self._let_time_pass()
                with contextlib.suppress(DbgError):
                    # An answer that does not come says nothing of the ranks; the next look may have one.
                    await self._look()
        except DbgError as error:
            tell(f"dbg-attach: {error}; hangs are not told")
        finally:
            await self._switchboard.close()

    async def _let_time_pass(self) -> None:
        await asyncio.sleep(min(max(self._seconds / LOOKS, SHORTEST_SECONDS), LONGEST_SECONDS))

    async def _look(self) -> None:
        ranks = self._living
        if not ranks or any(rank.state in (RankState.STOPPED, RankState.HELD) for rank in ranks):
            self._standstill.begin_anew()
            return
        answers = await self._asker.ask(Action.WHERE, ranks, look=Look.COLLECTIVES)
        if any(answer.text in (RankState.STOPPED.value, RankState.HELD.value) for answer in answers):
            self._standstill.begin_anew()
        elif self._standstill.look(answers, asyncio.get_running_loop().time()):
            why = await self._why(ranks)
            if why:
                await asyncio.to_thread(self._write, why)
            else:
                self._standstill.begin_anew()

    @property
    def _living(self) -> list[RankInfo]:
        if not self._switchboard.is_current:
            return []
        return [rank for rank in ranks_of(self._job, self._directory.ranks) if rank.state in LIVE_STATES]

    async def _why(self, ranks: Sequence[RankInfo]) -> str:
        """Return why these ranks don't move, as text for people; empty if one moves after all."""
        known = self._directory.ranks
        why = await show_why(Why(), self._asker, ranks, known, stands=True)
        if why.status == BUSY_STATUS:
            return ""
        if why.status != UNKNOWN_STATUS:
            return why.text
        # What can't be told at once may be seen from the stacks, which are no longer there in the morning.
        where = await show_stacks_of(Where(), self._asker, ranks, known=known)
        return why.text + where.text

    def _write(self, why: str) -> None:
        text = f"dbg-broker: no rank of {printable(self._job)} has moved for {show_age(self._seconds)}\n{why}"
        try:
            append(self._output, text)
        except OSError:
            tell(text.rstrip("\n"))


def append(path: str, text: str) -> None:
    """Append whole lines to a file that a job writes to, below a line that it has begun. Blocks. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        is_within_line = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        lines = f"\n{text}" if is_within_line else text
        os.write(file, lines.encode("utf-8", "replace"))
    finally:
        os.close(file)
