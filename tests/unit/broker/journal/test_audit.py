"""An entry of the audit log comes back as it was written."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.journal.audit import AUDIT_FILE, KEPT, AuditFile, append, audit_files, encode_entry, text_of
from dbg_broker.journal.worker import WorkerThread
from dbg_command.audit import AuditEntry, AuditEvent, decode_entry
from dbg_wire.messages import Action, Question
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, Inspection, InspectionKind, LineOfFile, Scope
from tests.support.time_unit import seconds

texts = st.text(st.characters(), max_size=100)
entries = st.builds(
    AuditEntry,
    at=st.floats(0, 4e9).map(lambda at: round(at, 3)),
    what=st.sampled_from(AuditEvent),
    terminal=texts,
    job=texts,
    ranks=texts,
    text=texts,
    count=st.integers(0, 10**6),
)


@given(entries)
def test_entry_reads_back(entry: AuditEntry) -> None:
    line = encode_entry(entry)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode_entry(line) == entry


def test_lines_are_appended_to_a_private_file(tmp_path: Path) -> None:
    append(tmp_path, b"one\n")
    append(tmp_path, b"two\n")
    path = tmp_path / AUDIT_FILE
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert audit_files(tmp_path) == [path]


def test_concurrent_writers_rotate_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound, write = len(b"first\n"), os.write
    other = threading.Thread(target=append, args=(tmp_path, b"other\n", bound))

    def slow(descriptor: int, data: bytes) -> int:
        written = write(descriptor, data)
        if data == b"first\n":
            other.start()
            # Without a lock the other one appends to this file, and both rotate.
            other.join(0.2)
        return written

    monkeypatch.setattr(os, "write", slow)
    append(tmp_path, b"first\n", bound)
    other.join()
    assert [path.read_bytes() for path in audit_files(tmp_path)] == [b"first\n", b"other\n"]


def test_large_file_is_rotated_and_the_oldest_removed(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        append(tmp_path, f"{number}\n".encode(), max_bytes=2)
    found = audit_files(tmp_path)
    assert [path.read_text() for path in found] == [f"{number}\n" for number in range(3, KEPT + 3)]
    append(tmp_path, b"last\n")
    assert audit_files(tmp_path)[-1].read_text() == "last\n"


def test_partial_write_is_undone_and_its_error_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, b"one\n")
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if data == b"two\nthree\n":
            return write(descriptor, data[:6])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left") as raised:
            append(tmp_path, b"two\nthree\n")
    assert raised.value.strerror == "No space left on device"
    append(tmp_path, b"four\n")
    assert (tmp_path / AUDIT_FILE).read_bytes() == b"one\nfour\n"


def test_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / AUDIT_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Too many levels"):
        append(tmp_path, b"x\n")
    assert not (tmp_path / "elsewhere").exists()


CHANGES = BreakpointChanges(
    clear=(LineOfFile(file="/a.py", line=3),),
    set=(
        BreakpointSpec(file="/a.py", line=7, condition="x > 1", hits="3"),
        BreakpointSpec(file="/b.py", line=1, log="x is {x}"),
    ),
)


def noted(action: Action, text: str = "", inquiry: AnyInquiry | None = None) -> str:
    question = Question(request=1, keys=("k",), action=action, seconds=1.0, text=text, inquiry=inquiry)
    return text_of(question)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Inspection(sight=InspectionKind.VALUE, text="loss.item()"), "loss.item()"),
        (Inspection(sight=InspectionKind.ASSIGN, name="lr", text="0.1"), "lr = 0.1"),
        (Inspection(sight=InspectionKind.PARTS, scope=Scope.GLOBALS), "globals"),
        (Inspection(sight=InspectionKind.PARTS, handle=12), "value 12"),
        (Inspection(sight=InspectionKind.SOURCE, text="/a.py"), "source /a.py"),
        (Inspection(sight=InspectionKind.EXCEPTION), "exception"),
    ],
)
def test_inspection_is_noted_as_text(asked: Inspection, text: str) -> None:
    assert noted(Action.INSPECT, inquiry=asked) == text


def test_breakpoints_are_noted_with_their_places() -> None:
    expected = "clear /a.py:3, set /a.py:7 if x > 1 hits 3, set /b.py:1 log x is {x}"
    assert noted(Action.BREAKPOINTS, inquiry=CHANGES) == expected
    assert noted(Action.BREAKPOINTS) == ""


def entry(number: int) -> AuditEntry:
    return AuditEntry(at=float(number), what=AuditEvent.ATTACH, text=str(number))


class Disk:
    """A disk that holds writes back until :attr:`gate` is set, or is full."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.is_full = False
        self.arrived = threading.Semaphore(0)
        self.lines: list[AuditEntry | None] = []

    def write(self, _: Path, data: bytes) -> None:
        self.arrived.release()
        assert self.gate.wait(seconds(30))
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.lines += [decode_entry(line) for line in data.splitlines()]


def worker(tmp_path: Path, disk: Disk, most: int = 100) -> WorkerThread[AuditEntry]:
    return WorkerThread("test", AuditFile(tmp_path, disk.write).put, most=most, at_once=200)


def test_slow_disk_blocks_no_caller_and_lost_entries_are_counted(tmp_path: Path) -> None:
    disk = Disk()
    log = worker(tmp_path, disk, most=10)
    log.put(entry(0))
    assert disk.arrived.acquire(timeout=seconds(30))
    for number in range(1, 1001):
        log.put(entry(number))
    assert log.lost == 990
    disk.gate.set()
    log.close()
    written = [line for line in disk.lines if line is not None]
    assert [line.text for line in written if line.what is AuditEvent.ATTACH] == [str(number) for number in range(11)]
    assert [line.count for line in written if line.what is AuditEvent.CUT] == [990]


def test_full_disk_is_reported_once_and_losses_are_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "dbg_broker")
    disk = Disk()
    disk.gate.set()
    disk.is_full = True
    log = worker(tmp_path, disk)
    for number in range(3):
        log.put(entry(number))
        assert disk.arrived.acquire(timeout=seconds(30))
        while log.lost <= number:
            time.sleep(0)
    disk.is_full = False
    log.put(entry(3))
    log.close()
    written = [line for line in disk.lines if line is not None]
    assert [line.text for line in written if line.what is AuditEvent.ATTACH] == ["3"]
    assert [line.count for line in written if line.what is AuditEvent.CUT] == [3]
    assert len(caplog.records) == 1
