"""The loop's side: one recording a stop, nothing waits, and what waits for the disk is bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.recording import recorder as module
from dbg_broker.recording.recorder import Recorder
from dbg_broker.recording.stop_cast import Happening, Marker, Missing, ScreenInfo, Shown, Typed
from dbg_broker.recording.writer import Entry
from dbg_broker.timers import Timers
from dbg_wire.messages import RankReport, SessionInfo, StopInfo
from dbg_wire.records.ranks import Place, RankState
from tests.conftest import Approved
from tests.unit.broker.peers import registration
from tests.unit.broker.recording.events import shown


class Writer:
    """Stands in for the writing thread; it keeps what it is given, and writes it when told."""

    def __init__(self) -> None:
        self.done = 0
        self.entries: list[Entry] = []
        self.batches: list[int] = []
        """The cost of what was put together, each time."""
        self.is_closed = False

    def put(self, entries: list[Entry]) -> None:
        self.entries += entries
        self.batches.append(sum(entry.cost for entry in entries))

    def write(self) -> list[Happening | None]:
        """Return what was put since the last time, and count it as written."""
        entries, self.entries = self.entries, []
        for entry in entries:
            entry.recording.done += entry.cost
            self.done += entry.cost
        return [entry.happening for entry in entries]

    def close(self) -> None:
        self.is_closed = True


class Recording:
    """A recorder with its writer, clock and timers in the test's hands."""

    def __init__(self, *, records_input: bool = False) -> None:
        self.writer = Writer()
        self.now = 100.0
        self.timers: list[Callable[[], None]] = []
        self.repaints: list[str] = []
        self.recorder = Recorder(
            self.writer,  # type: ignore[arg-type]
            Timers(lambda: self.now, lambda _, act: self.timers.append(act)),
            want_repaint=self.repaints.append,
            records_input=records_input,
        )

    def happened(self) -> list[Happening | None]:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()
        return self.writer.write()


def stopped(number: int = 1, *, session: int = 1) -> RankReport:
    return RankReport(
        state=RankState.STOPPED,
        stop=StopInfo(
            number=number, reason="breakpoint", where=Place(file="a.py", line=7, function="f"), age=0.0, thread="M"
        ),
        session=SessionInfo(number=session, engine="pudb", rows=24, columns=80),
    )


def rank(report: RankReport) -> RankRecord:
    said = registration(0)
    return RankRecord(said, report, RankState.STOPPED, None, 0.0, 0.0, 0.0)


def kinds(happenings: Sequence[Happening | None]) -> list[type]:
    return [type(one) for one in happenings]


def test_a_stop_is_recorded_from_its_first_output_on(approved: Approved) -> None:
    test, record = Recording(), rank(stopped())
    test.recorder.changed(record)
    test.recorder.seated(record.key, "alice, a driver,")
    assert test.happened() == []
    assert test.recorder.notice(record.key) == ""
    assert test.recorder.shown(record.key, shown(0.0, b"a").frame)
    assert not test.recorder.shown(record.key, shown(0.0, b"b", 1).frame)
    # Another debugger is opened: its terminal may have shown no notice before.
    assert test.recorder.shown(record.key, shown(0.0, b"c", session=2).frame)
    first, second, *rest = test.happened()
    assert first == ScreenInfo(100.0, 1, "pudb", 24, 80, None)
    assert second == Marker(100.0, "alice, a driver, types")
    assert kinds(rest) == [Shown, Shown, Shown]
    approved(test.recorder.notice(record.key))
    assert test.recorder.open == 1
    assert test.repaints == []


@pytest.mark.parametrize("records", [True, False])
def test_keys_are_recorded_only_if_that_is_asked_for(records: bool) -> None:
    test, record = Recording(records_input=records), rank(stopped())
    test.recorder.changed(record)
    test.recorder.shown(record.key, shown(0.0, b"a").frame)
    test.recorder.typed(record.key, b"n")
    assert (Typed(100.0, b"n") in test.happened()) is records
    assert ("typed" in test.recorder.notice(record.key)) is records


def test_the_end_of_a_stop_and_the_next_one_are_two_recordings() -> None:
    test, record = Recording(), rank(stopped())
    test.recorder.changed(record)
    test.recorder.shown(record.key, shown(0.0, b"a").frame)
    record.report = RankReport(state=RankState.RUNNING)
    test.recorder.changed(record)
    test.recorder.changed(record)
    # A log's end may come after the report.
    test.recorder.shown(record.key, shown(0.0, b"late", 1).frame)
    assert kinds(test.happened()) == [ScreenInfo, Shown, Marker, Shown]
    assert test.recorder.open == 0
    record.report = stopped(2, session=2)
    test.recorder.changed(record)
    test.recorder.shown(record.key, shown(0.0, b"b", session=2).frame)
    assert kinds(test.happened()) == [type(None), ScreenInfo, Shown]


def test_a_recording_that_begins_within_a_session_asks_for_the_whole_screen() -> None:
    test, record = Recording(), rank(stopped())
    test.recorder.changed(record)
    test.recorder.shown(record.key, shown(0.0, b"b", 5).frame)
    assert kinds(test.happened()) == [ScreenInfo, Marker, Shown]
    assert test.repaints == [record.key]


def test_a_disk_that_takes_nothing_makes_nobody_wait_and_the_loss_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_OF_ONE", 100_000)
    test, record = Recording(), rank(stopped())
    test.recorder.changed(record)
    frame = shown(0.0, b"x" * 10_000).frame
    for _ in range(1000):
        test.recorder.shown(record.key, frame)
    for timer in test.timers:
        timer()
    assert sum(entry.cost for entry in test.writer.entries) <= 100_000
    kept = len([entry for entry in test.writer.entries if isinstance(entry.happening, Shown)])
    assert test.recorder.lost == (1000 - kept) * 10_000
    test.happened()
    test.repaints.clear()
    test.recorder.shown(record.key, frame)
    gap, look, output = test.happened()
    assert gap == Missing(100.0, (1000 - kept) * 10_000)
    assert isinstance(look, ScreenInfo)
    assert isinstance(output, Shown)
    assert test.repaints == [record.key]
