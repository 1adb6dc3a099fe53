"""A full or slow disk makes nobody wait: entries are lost, counted, and the count is written."""

from __future__ import annotations

import errno
import logging
import threading
import time
from pathlib import Path

import pytest

from dbg_broker.audit import writer
from dbg_broker.audit.writer import AuditLog
from dbg_wire.records.audit import Entry, What, decode_entry
from tests.support.time_unit import seconds


def entry(number: int) -> Entry:
    return Entry(at=float(number), what=What.ATTACH, text=str(number))


class Disk:
    """A disk that holds writes back until :attr:`gate` is set, or is full."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.is_full = False
        self.arrived = threading.Semaphore(0)
        self.lines: list[Entry | None] = []

    def write(self, _: Path, data: bytes) -> None:
        self.arrived.release()
        assert self.gate.wait(seconds(30))
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.lines += [decode_entry(line) for line in data.splitlines()]


def test_entries_are_written_in_their_order(tmp_path: Path) -> None:
    disk = Disk()
    disk.gate.set()
    log = AuditLog(tmp_path, disk.write)
    for number in range(500):
        log.note(entry(number))
    log.close()
    assert disk.lines == [entry(number) for number in range(500)]
    assert log.lost == 0


def test_a_slow_disk_makes_nobody_wait_and_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING", 10)
    disk = Disk()
    log = AuditLog(tmp_path, disk.write)
    log.note(entry(0))
    assert disk.arrived.acquire(timeout=seconds(30))
    for number in range(1, 1001):
        log.note(entry(number))
    assert log.lost == 990
    disk.gate.set()
    log.close()
    written = [line for line in disk.lines if line is not None]
    assert [line.text for line in written if line.what is What.ATTACH] == [str(number) for number in range(11)]
    assert [line.count for line in written if line.what is What.CUT] == [990]


def test_a_full_disk_is_told_once_and_its_losses_are_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "dbg_broker")
    disk = Disk()
    disk.gate.set()
    disk.is_full = True
    log = AuditLog(tmp_path, disk.write)
    for number in range(3):
        log.note(entry(number))
        assert disk.arrived.acquire(timeout=seconds(30))
        while log.lost <= number:
            time.sleep(0)
    disk.is_full = False
    log.note(entry(3))
    log.close()
    written = [line for line in disk.lines if line is not None]
    assert [line.text for line in written if line.what is What.ATTACH] == ["3"]
    assert [line.count for line in written if line.what is What.CUT] == [3]
    assert [record.getMessage() for record in caplog.records] == [
        "the audit log can't be written (No space left on device); entries are lost until it can"
    ]
