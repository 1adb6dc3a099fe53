"""The writing thread: a slow or full disk loses output, says how much, and leaves whole lines."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_broker.recording import writer as module
from dbg_broker.recording.stop_cast import Happening, StopCast
from dbg_broker.recording.writer import Entry, Recording, RecordingDirectory, RecordingWriter, new_recording
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.broker.recording.events import ABOUT, events, marks, output, seen, shown


class Disk:
    """A disk that is full, takes a part, or holds a write back until :attr:`gate` is set."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)
        self.takes: int | None = None
        """Bytes that each write takes; None for all, -1 for an error."""

    def write(self, descriptor: int, data: bytes) -> int:
        self.arrived.release()
        assert self.gate.wait(seconds(30))
        if self.takes is None:
            return os.write(descriptor, data)
        if self.takes < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data[: self.takes])


class Writing:
    """A writer on a scripted disk; what is put is written when :meth:`put` returns."""

    def __init__(self, folder: Path) -> None:
        self.disk = Disk()
        self.writer = RecordingWriter(RecordingDirectory(folder, 10**9), self.disk.write)

    def put(self, recording: Recording, *happenings: Happening | None) -> None:
        entries = [Entry(recording, happening, 1) for happening in happenings]
        flushed = threading.Event()
        last = new_recording(ABOUT)
        self.writer.put(entries)
        # The thread comes to the next batch when this one is done.
        self.writer.put([Entry(last, _Flag(flushed), 0)])  # type: ignore[arg-type]
        assert flushed.wait(seconds(30))


class _Flag:
    """Stands in for a happening, and says that the thread has come to it."""

    at = 0.0

    def __init__(self, flag: threading.Event) -> None:
        self._flag = flag

    def __hash__(self) -> int:
        return 0


@pytest.fixture
def writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writing]:
    lines_of = StopCast.lines_of

    def noting(cast: StopCast, happening: Happening) -> bytes:
        if isinstance(happening, _Flag):
            happening._flag.set()
            return b""
        return lines_of(cast, happening)

    monkeypatch.setattr(StopCast, "lines_of", noting)
    made = Writing(tmp_path)
    yield made
    made.disk.gate.set()
    made.writer.close()


def body(recording: Recording) -> bytes:
    assert recording.path is not None
    return recording.path.read_bytes().partition(b"\n")[2]


@pytest.mark.parametrize("takes", [-1, 0, 1, 12])
def test_a_full_disk_leaves_whole_lines_and_the_loss_is_named(
    writing: Writing, takes: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "dbg_broker")
    recording = new_recording(ABOUT)
    writing.put(recording, seen(0.0), shown(0.0, b"before"))
    size = recording.size
    writing.disk.takes = takes
    writing.put(recording, shown(1.0, b"lost", 6))
    writing.put(recording, shown(2.0, b"lost too", 10))
    assert recording.path is not None
    assert recording.path.stat().st_size == size
    assert not recording.wants_repaint
    writing.disk.takes = None
    writing.put(recording, shown(3.0, b"after", 18))
    assert output(body(recording)) == "beforeafter"
    (mark,) = marks(body(recording))
    assert mark.startswith("12 ")
    assert events(body(recording))[-1][0] == 3.0
    assert recording.wants_repaint
    assert writing.writer.lost == 12
    assert len(caplog.records) == 1


def test_a_file_is_bounded_and_says_so(approved: Approved, writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE", 2**20)
    recording = new_recording(ABOUT)
    writing.put(recording, seen(0.0), *(shown(0.0, b"x" * 2**16, number * 2**16) for number in range(17)))
    writing.put(recording, shown(1.0, b"more", 2**21))
    (mark,) = marks(body(recording))
    approved(mark)
    assert "more" not in output(body(recording))
