# ruff: noqa: F401, F811 - fixtures of another file
"""A link whose broker falls silent or whose name server hangs: it finds another broker, and its clock goes on."""

from __future__ import annotations

import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dbg_agent.link import dialling
from dbg_agent.link.link import Link
from dbg_wire.finding.endpoint import THROW_AWAY_MARK, Endpoint, Reach
from tests.support.time_unit import seconds
from tests.unit.agent.link.test_link import (
    SECONDS,
    TOKEN,
    FakeBroker,
    FakeDesk,
    authority,
    desk,
    link,
    reach,
    start_broker,
)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a silence be noticed within half a second."""
    monkeypatch.setattr(dialling, "PING_ATTENDED_SECONDS", 0.1)
    monkeypatch.setattr(dialling, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(dialling, "seconds_since_ack", lambda _: 0.0)


@pytest.fixture
def suspended() -> Iterator[Callable[[FakeBroker], None]]:
    """Have a broker do nothing until the end of the test, while its kernel acknowledges all that comes."""
    enough = threading.Event()
    yield lambda broker: broker.do(enough.wait)
    enough.set()


@pytest.mark.usefixtures("soon")
def test_while_a_broker_is_silent_another_one_is_dialled_and_taken(
    start_broker: Callable[..., FakeBroker],
    desk: FakeDesk,
    link: Link,
    suspended: Callable[[FakeBroker], None],
) -> None:
    desk.attended = True
    first, second = start_broker(), start_broker()
    desk.reach = reach(first)
    link.start()
    assert link.wait_connected(SECONDS) is None
    desk.reach = reach(second)
    suspended(first)
    assert second.connections.get(timeout=SECONDS) is not None
    assert link.wait_connected(SECONDS) is None
    assert second.frames.get(timeout=SECONDS) == '{"type":"register"}'


@pytest.mark.usefixtures("soon")
def test_while_a_broker_is_silent_the_others_are_dialled_before_it(
    start_broker: Callable[..., FakeBroker],
    desk: FakeDesk,
    link: Link,
    suspended: Callable[[FakeBroker], None],
) -> None:
    desk.attended = True
    first, second = start_broker(), start_broker()
    desk.reach = replace(reach(first), others=(reach(second).endpoint,))
    link.start()
    assert link.wait_connected(SECONDS) is None
    suspended(first)
    assert second.connections.get(timeout=SECONDS) is not None
    assert second.frames.get(timeout=SECONDS) == '{"type":"register"}'


@pytest.mark.usefixtures("soon")
def test_a_broker_that_answers_pings_keeps_its_rank(
    monkeypatch: pytest.MonkeyPatch,
    start_broker: Callable[..., FakeBroker],
    desk: FakeDesk,
    link: Link,
) -> None:
    # Longer than a busy machine delays the broker's thread.
    monkeypatch.setattr(dialling, "SILENT_SECONDS", seconds(1.5))
    desk.attended = True
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    assert link.wait_connected(SECONDS) is None
    assert broker.connections.get(timeout=SECONDS) is not None
    passed = threading.Event()
    link.call_later(2 * seconds(1.5), passed.set)
    assert passed.wait(SECONDS)
    assert broker.connections.empty()
    assert desk.registrations == 1


def test_a_name_server_that_hangs_holds_up_neither_the_clock_nor_the_end(
    desk: FakeDesk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, enough = threading.Event(), threading.Event()
    really = socket.getaddrinfo

    def hanging(host: str, *arguments: object, **options: object) -> object:
        if host == "login1" and not options.get("flags"):
            asked.set()
            enough.wait()
            raise OSError("too late")
        return really(host, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    desk.reach = Reach(
        endpoint=Endpoint(host="login1", port=1, secure=False, fingerprint=None),
        token=f"{THROW_AWAY_MARK}{TOKEN}",
        sources={},
    )
    link = Link(desk)
    link.start()
    assert asked.wait(SECONDS)
    rang = threading.Event()
    link.call_later(0.05, rang.set)
    assert rang.wait(SECONDS)
    link.close()
    assert not any(thread.name == "dbg-agent" for thread in threading.enumerate())
    enough.set()


def test_a_home_that_hangs_holds_up_neither_the_clock_nor_the_end(desk: FakeDesk) -> None:
    asked, enough = threading.Event(), threading.Event()

    def hanging(_opening: object) -> Reach:
        asked.set()
        enough.wait()
        raise AssertionError("too late")

    desk.find_broker = hanging  # type: ignore[method-assign]
    link = Link(desk)
    link.start()
    assert asked.wait(SECONDS)
    rang = threading.Event()
    link.call_later(0.05, rang.set)
    assert rang.wait(SECONDS)
    link.close()
    assert not any(thread.name == "dbg-agent" for thread in threading.enumerate())
    enough.set()


def test_what_a_signal_handler_raises_while_the_home_hangs_is_the_programs(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = threading.Event()

    def hanging(_opening: object) -> Reach:
        enough.wait()
        raise AssertionError("too late")

    def ring(*_: object) -> None:
        raise LookupError("from the program")

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout:
                signal.raise_signal(signal.SIGALRM)
            return super().wait(timeout)

    desk.find_broker = hanging  # type: ignore[method-assign]
    link = Link(desk)
    monkeypatch.setattr(link._lookup, "_ended", Interrupted())
    link.start()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(LookupError, match="from the program"):
            link.wait_connected(0.0)
    finally:
        signal.signal(signal.SIGALRM, before)
        link.close()
        enough.set()


def test_where_nobody_takes_a_connection_who_is_in_a_hurry_does_not_wait(
    desk: FakeDesk,
    link: Link,
) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # With the queue full, the kernel answers no connection, like a network that drops everything.
        queued = [socket.create_connection(full.getsockname())]
        desk.reach = Reach(
            endpoint=Endpoint(host="127.0.0.1", port=full.getsockname()[1], secure=False, fingerprint=None),
            token=f"{THROW_AWAY_MARK}{TOKEN}",
            sources={},
        )
        link.start()
        done = threading.Event()

        def wait() -> None:
            assert link.wait_connected(1000.0, unanswered=0.2) is not None
            done.set()

        threading.Thread(target=wait, daemon=True).start()
        assert done.wait(SECONDS)
        for each in queued:
            each.close()


def test_a_link_is_served_as_long_as_a_process_listens(desk: FakeDesk, link: Link) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk.reach = Reach(
            endpoint=Endpoint(host="127.0.0.1", port=silent.getsockname()[1], secure=False, fingerprint=None),
            token=f"{THROW_AWAY_MARK}{TOKEN}",
            sources={},
        )
        assert not link.is_served
        link.start()
        connection, _ = silent.accept()
        assert connection.recv(1)
        assert link.wait_connected(0.0) is not None
        assert link.is_served
    connection.close()
    assert link.wait_connected(math.inf, unanswered=0.2) is not None
    assert not link.is_served
