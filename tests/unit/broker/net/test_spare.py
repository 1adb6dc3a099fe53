"""What the broker keeps in reserve."""

from __future__ import annotations

import errno
import logging
import mmap
import os
import resource
from collections.abc import Iterator

import pytest

from dbg_broker.net import spare
from dbg_broker.net.spare import (
    DESCRIPTORS,
    ENOUGH,
    MEMORY,
    RETRY_SECONDS,
    TELL_SECONDS,
    Lack,
    SpareDescriptors,
    SpareMemory,
)
from tests.conftest import Approved

NONE_LEFT = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def descriptors() -> Iterator[SpareDescriptors]:
    """Return spare descriptors that are there."""
    kept = SpareDescriptors(lambda: 0.0)
    kept.begin()
    yield kept
    kept.close()


@pytest.fixture
def full(descriptors: SpareDescriptors) -> Iterator[list[int]]:
    """Leave this process no descriptor beside the spare ones; return some that may be closed for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 8, hard))
    taken = [lowest]
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        yield taken
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_each_spare_is_lent_once_and_what_lacks_is_said(descriptors: SpareDescriptors, full: list[int]) -> None:
    assert descriptors.lack.why == ""
    for _ in range(DESCRIPTORS):
        assert descriptors.lend(NONE_LEFT)
        full.append(os.dup(0))
    assert not descriptors.lend(NONE_LEFT)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert descriptors.lack.why == (
        f"the broker has no file descriptor left, as it may have {soft} open files; "
        "start it after `ulimit -n` with a larger number"
    )


def test_the_lack_ends_when_there_are_enough_beside_the_spare_ones(
    descriptors: SpareDescriptors, full: list[int]
) -> None:
    descriptors.lend(NONE_LEFT)
    descriptors.refill()
    assert descriptors.lack.why
    os.close(full.pop())
    descriptors.refill()
    assert descriptors.lack.why
    for _ in range(ENOUGH - 1):
        os.close(full.pop())
    descriptors.refill()
    assert descriptors.lack.why == ""


def test_a_host_without_descriptors_is_told_as_such(descriptors: SpareDescriptors) -> None:
    descriptors.lend(OSError(errno.ENFILE, os.strerror(errno.ENFILE)))
    assert "host" in descriptors.lack.why
    assert "fs.file-max" in descriptors.lack.why


def test_a_lack_that_comes_and_goes_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    lack = Lack(lambda: now)
    with caplog.at_level(logging.WARNING, "dbg_broker"):
        for _ in range(20):
            lack.begin("no room")
            lack.begin("less room")
            lack.end()
        assert caplog.messages == ["newcomers are refused: no room", "newcomers are taken again"]
        now += TELL_SECONDS
        lack.begin("no room")
    assert len(caplog.messages) == 3


class Host:
    """A host that has so many bytes of address space for the reserve and what is beside it, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.room = 10 * MEMORY

    def clock(self) -> float:
        return self.now

    def map(self, size: int) -> mmap.mmap | None:
        return mmap.mmap(-1, size) if size <= self.room else None


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host on which memory is reserved."""
    host = Host()
    monkeypatch.setattr(spare, "_room", host.map)
    return host


@pytest.fixture
def memory(host: Host) -> Iterator[SpareMemory]:
    """Return a reserve of memory that is there."""
    kept = SpareMemory(host.clock)
    kept.begin()
    yield kept
    kept.close()


def test_memory_lacks_from_the_look_that_finds_none_until_reserve_and_headroom_are_back(
    approved: Approved, memory: SpareMemory, host: Host
) -> None:
    assert memory.lack.why == ""
    host.room = 0
    memory.poll()
    approved(memory.lack.why)
    host.room = MEMORY - 1
    host.now += RETRY_SECONDS
    memory.poll()
    assert memory.lack.why
    host.room = MEMORY
    memory.poll()
    assert memory.lack.why, "it is tried again too soon"
    host.now += RETRY_SECONDS
    memory.poll()
    assert memory.lack.why == ""


def test_a_memory_error_elsewhere_gives_the_reserve_up(memory: SpareMemory, host: Host) -> None:
    memory.give_up()
    memory.give_up()
    assert memory.lack.why
    host.now += RETRY_SECONDS
    memory.poll()
    assert memory.lack.why == ""


def test_no_memory_lacks_before_the_reserve_is_taken_and_after_it_is_closed(host: Host) -> None:
    host.room = 0
    kept = SpareMemory(host.clock)
    kept.poll()
    assert kept.lack.why == ""
    kept.begin()
    assert kept.lack.why
