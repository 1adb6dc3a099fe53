"""Which stops are recorded, and what of them: the event loop's side of it.

What happens within a moment is handed to the writing thread together, so that no change of threads comes between a key
and its echo. What waits for the disk is bounded; beyond the bound it is lost, counted, and named in the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.recording.stop_cast import About, Happening, Marker, Missing, ScreenInfo, Shown, Typed, place_of
from dbg_broker.recording.writer import Entry, Recording, RecordingWriter, new_recording
from dbg_broker.timers import Timers
from dbg_wire.messages import PromptInfo, StopInfo
from dbg_wire.records.ranks import RankState

TOGETHER_SECONDS = 0.1
"""Seconds in which what happens is handed over together; a broker that is killed loses as much."""

TOGETHER_BYTES = 256 * 1024
"""Bytes beyond which no more is handed over together: the thread that makes one write of them holds the interpreter for
the time of some copies of its lines, which are six times as long where a rank sends control characters."""

MAX_WAITING = 16 * 1024 * 1024
"""Bytes of all recordings that wait for the disk: some minutes of a crowd that types."""

MAX_WAITING_OF_ONE = 4 * 1024 * 1024
"""Bytes of one recording that wait: a rank that draws without end leaves room for others."""

COST = 300
"""Bytes that anything counts beside its own: the objects around it."""

RECORDED = "this session is recorded"
"""What a terminal is told that comes to a rank whose session is recorded."""


@dataclass(slots=True, eq=False)
class _Stop:
    """The present stop of a rank. ``recording`` is None before its first output."""

    rank: RankRecord
    number: int
    is_over: bool = False
    recording: Recording | None = None
    session: int | None = None
    """The session of the last output."""
    looks: tuple[int, str, int, int, PromptInfo | None] | None = None
    """What was last put of the debugger, its screen and its prompt."""
    lost: int = 0
    """Bytes of output that found no room since something did."""


class Recorder:
    """Record all stops that have a terminal. All methods belong to the event loop's thread, and do not block."""

    def __init__(
        self,
        writer: RecordingWriter,
        timers: Timers,
        *,
        want_repaint: Callable[[str], None],
        records_input: bool = False,
    ) -> None:
        """``want_repaint`` asks a rank for its whole screen; a line debugger's rank needs none."""
        self.writer = writer
        self.records_input = records_input
        self.lost = 0
        """Bytes of output that were lost because too much waited for the disk."""
        self._clock, self._wall, self._schedule = timers.clock, timers.wall, timers.schedule
        self._want_repaint = want_repaint
        self._stops: dict[str, _Stop] = {}
        self._typing: dict[str, str] = {}
        self._given = 0
        self._together: list[Entry] = []
        self._together_cost = 0
        self._is_due = False

    @property
    def open(self) -> int:
        """Return how many stops are recorded now."""
        return sum(stop.recording is not None and not stop.is_over for stop in self._stops.values())

    def notice(self, key: str) -> str:
        """Return what a terminal is told that comes to a rank; empty if nothing is recorded there."""
        stop = self._stops.get(key)
        if stop is None or stop.is_over or stop.recording is None:
            return ""
        return f"{RECORDED}{', with what is typed' if self.records_input else ''}"

    # ---------------------------------------------------------------------------------------------------- what happens

    def changed(self, rank: RankRecord) -> None:
        """Take note of what a rank reports, and of its end."""
        stop, report = self._stops.get(rank.key), rank.report
        if rank.state is RankState.EXITED:
            how = "" if rank.end.exit is None else f" with {rank.end.exit}"
            self._forget(rank.key, f"the process has ended{how}")
            return
        if report.stop is None:
            if stop is not None and not stop.is_over:
                stop.is_over = True
                self._mark(stop, "the stop ended, and the rank goes on")
            return
        if stop is None or stop.number != report.stop.number:
            self._forget(rank.key)
            stop = self._stops[rank.key] = _Stop(rank, report.stop.number)
        if rank.state is RankState.LOST:
            self._mark(stop, "the rank's connection is lost")
        self._see(stop)

    def shown(self, key: str, frame: bytes) -> bool:
        """Record terminal bytes that a rank sends, and tell whether a session has begun with them.

        Without a stop there is nothing that they belong to.
        """
        stop = self._stops.get(key)
        if stop is None:
            return False
        session, offset = place_of(frame)
        if stop.recording is None:
            if stop.is_over or stop.rank.report.stop is None:
                return False
            self._begin(stop, stop.rank.report.stop)
            if offset:
                self._mark(stop, "this recording continues a session that was shown before")
                # A screen's differences mean nothing without the screen before; a new session draws all of it.
                self._want_repaint(key)
        # Its time is taken behind what stands before it in the recording: new files take time.
        self._put(stop, Shown(self._clock(), frame), len(frame))
        before, stop.session = stop.session, session
        return before != session

    def typed(self, key: str, keys: bytes) -> None:
        """Record what the driver types, if that is asked for."""
        stop = self._stops.get(key)
        if self.records_input and stop is not None:
            self._put(stop, Typed(self._clock(), keys), len(keys))

    def seated(self, key: str, who: str) -> None:
        """Take note of who types at a rank, in words; empty for nobody."""
        before = self._typing.pop(key, "")
        if who:
            self._typing[key] = who
        stop = self._stops.get(key)
        if before != who and stop is not None and not stop.is_over:
            self._mark(stop, _who_types(who))

    def forget(self, key: str) -> None:
        """End the recording of a rank that is no longer listed."""
        self._typing.pop(key, None)
        self._forget(key)

    def close(self) -> None:
        """End all recordings, and give the disk a second for what waits."""
        for key, stop in tuple(self._stops.items()):
            self._forget(key, "" if stop.is_over else "the broker ends; the stop goes on")
        self._hand_over()
        self.writer.close()

    # ------------------------------------------------------------------------------------------------------------ inner

    def _begin(self, stop: _Stop, info: StopInfo) -> None:
        where = info.where
        stop.recording = new_recording(
            About(
                job=stop.rank.identity.job,
                address=stop.rank.address,
                stop=stop.number,
                began=self._wall(),
                reason=info.reason,
                place=f"{where.file}:{where.line}" if where.file else "",
                script=stop.rank.process.script,
            )
        )
        self._see(stop)
        if who := self._typing.get(stop.rank.key):
            self._mark(stop, _who_types(who))

    def _see(self, stop: _Stop) -> None:
        """Put how the debugger looks now, if that is news."""
        report = stop.rank.report
        session, before = report.session, stop.looks
        if stop.recording is None or session is None:
            return
        looks = (session.number, session.engine, session.rows or 24, session.columns or 80, report.prompt)
        if looks != before:
            stop.looks = looks
            self._put(stop, ScreenInfo(self._clock(), *looks))

    def _mark(self, stop: _Stop, text: str) -> None:
        self._put(stop, Marker(self._clock(), text))

    def _put(self, stop: _Stop, happening: Happening, size: int = 0) -> None:
        recording, cost = stop.recording, size + COST
        if recording is None:
            return
        is_crowded = (
            self._given - self.writer.done + cost > MAX_WAITING
            or recording.given - recording.done + cost > MAX_WAITING_OF_ONE
        )
        if is_crowded:
            if isinstance(happening, Shown):
                stop.lost += happening.size
                self.lost += happening.size
            stop.looks = None
            return
        if stop.lost:
            lost, stop.lost = stop.lost, 0
            self._give(recording, Missing(self._clock(), lost), 0)
            self._see(stop)
            self._want_repaint(stop.rank.key)
        if recording.wants_repaint:
            recording.wants_repaint = False
            self._want_repaint(stop.rank.key)
        self._give(recording, happening, cost)

    def _give(self, recording: Recording, happening: Happening | None, cost: int) -> None:
        recording.given += cost
        self._given += cost
        self._together.append(Entry(recording, happening, cost))
        self._together_cost += cost
        if self._together_cost >= TOGETHER_BYTES:
            self._hand_over()
        elif not self._is_due:
            self._is_due = True
            self._schedule(TOGETHER_SECONDS, self._due)

    def _due(self) -> None:
        self._is_due = False
        self._hand_over()

    def _hand_over(self) -> None:
        entries, self._together = self._together, []
        self._together_cost = 0
        if entries:
            self.writer.put(entries)

    def _forget(self, key: str, why: str = "") -> None:
        stop = self._stops.pop(key, None)
        if stop is None or stop.recording is None:
            return
        if why:
            self._mark(stop, why)
        self._give(stop.recording, None, 0)


def _who_types(who: str) -> str:
    return f"{who} types" if who else "nobody types"
