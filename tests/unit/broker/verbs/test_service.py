"""A manager that waits for it is told that the broker is ready, what it does, that its loop runs, and that it stops."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbg_broker.verbs.service import STATUS_SECONDS, ServiceManager, status_line

PID = 4711


class Timers:
    """Timers that fire when a test says so."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.call: Callable[[], None] | None = None

    def schedule(self, seconds: float, call: Callable[[], None]) -> None:
        self.pauses.append(seconds)
        self.call = call

    def fire(self) -> None:
        call = self.call
        assert call is not None
        call()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    is_abstract = request.param == "abstract"
    name = f"@dbg-broker-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name[1:]}" if is_abstract else name)
        receiver.setblocking(False)
        yield receiver, name


def received(receiver: socket.socket) -> list[str]:
    """Return all lines that have come."""
    lines: list[str] = []
    while True:
        try:
            lines += receiver.recv(4096).decode().split("\n")
        except BlockingIOError:
            return lines


def test_a_broker_tells_its_life(manager: tuple[socket.socket, str]) -> None:
    receiver, name = manager
    timers, statuses = Timers(), iter(["0 ranks", "0 ranks", "1 rank"])
    environ = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(PID)}
    service = ServiceManager(environ, PID, timers.schedule)
    service.ready(lambda: next(statuses))
    assert received(receiver) == ["READY=1", "WATCHDOG=1", "STATUS=0 ranks"]
    timers.fire()
    assert received(receiver) == ["WATCHDOG=1"]
    timers.fire()
    assert received(receiver) == ["WATCHDOG=1", "STATUS=1 rank"]
    assert timers.pauses == [1.5] * 3
    service.stopping()
    timers.fire()
    assert received(receiver) == ["STOPPING=1"]


@pytest.mark.parametrize(
    "watchdog",
    [{}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}],
)
def test_no_sign_of_life_is_sent_that_is_not_asked_for(
    manager: tuple[socket.socket, str], watchdog: dict[str, str]
) -> None:
    receiver, name = manager
    timers = Timers()
    ServiceManager({"NOTIFY_SOCKET": name, **watchdog}, PID, timers.schedule).ready(lambda: "idle")
    timers.fire()
    assert received(receiver) == ["READY=1", "STATUS=idle"]
    assert timers.pauses == [STATUS_SECONDS] * 2


@pytest.mark.parametrize("name", ["", "relative", "@", "/nowhere/at/all"])
def test_a_manager_that_is_not_there_is_no_error(name: str) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": name}, PID, Timers().schedule)
    service.ready(lambda: "idle")
    service.stopping()


def test_the_status_counts_what_is_there() -> None:
    assert status_line(12, 3, 1) == "12 ranks, 3 stopped, 1 terminal"
    assert status_line(1, 0, 0) == "1 rank, 0 stopped, 0 terminals"
