"""For how long a rank waits before it dials again, where it dials, and what waits to be sent meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_agent.link.dialling import FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS, LAST_REFUSED_SECONDS, Dialler
from dbg_agent.link.fork_safety import Lookups
from dbg_agent.link.link import find_ranks_broker
from dbg_agent.link.outgoing import MAX_MESSAGE_BYTES, MAX_MESSAGES, REPORT_NOW, Outgoing
from dbg_dial.endpoint import Rendezvous, Route, format_rendezvous
from dbg_wire.codec import Output, encode_data
from dbg_wire.errors import BrokerUnreachable, ConnectionClosedEarly, Refused, WrongHost
from dbg_wire.limits import MAX_LINK_BACKLOG


async def nowhere() -> Route:
    raise NotImplementedError


def longest(pauses: Callable[[], float]) -> float:
    return max(pauses() for _ in range(200))


@pytest.mark.parametrize(
    ("error", "most"),
    [
        (BrokerUnreachable("wss://h:1", "refused"), LAST_BACKOFF_SECONDS),
        (ConnectionClosedEarly("wss://h:1"), LAST_REFUSED_SECONDS),
        (Refused("wss://h:1", "full"), LAST_REFUSED_SECONDS),
    ],
)
def test_a_broker_that_refuses_is_dialled_less_often_but_an_absent_one_is_not(
    error: BrokerUnreachable | Refused, most: float
) -> None:
    dialler = Dialler(nowhere, Lookups())
    assert longest(lambda: dialler.pause(None)) <= FIRST_BACKOFF_SECONDS
    for _ in range(20):
        dialler.pause(error)
    assert most / 2 < longest(lambda: dialler.pause(error)) <= most


PIN = "sha256:" + "ab" * 32
TOKEN = "t" * 43


def write_home(home: Path, url: str = "wss://login1:6900", host: str = "login1") -> Path:
    path = home / "broker.json"
    path.write_text(format_rendezvous(Rendezvous(url=url, host=host, pid=7, fingerprint=PIN, tokens={"rank": TOKEN})))
    path.chmod(0o600)
    return path


def find(home: Path, **variables: str) -> tuple[Route, list[str]]:
    """Return how to reach the broker, and the files that were opened for it."""
    opened: list[str] = []
    return find_ranks_broker(None, {"DBG_HOME": str(home), **variables}, opened.append), opened


def test_the_broker_of_the_shared_home_is_found_without_reading_terminal_tokens(tmp_path: Path) -> None:
    path = write_home(tmp_path)
    (tmp_path / "driver.json").write_text("not for ranks")
    reach, opened = find(tmp_path)
    assert (reach.endpoint.url, reach.endpoint.fingerprint, reach.token) == ("wss://login1:6900", PIN, TOKEN)
    assert opened == [str(path)]


def test_the_loopback_address_of_another_host_is_refused(tmp_path: Path) -> None:
    write_home(tmp_path, url="wss://127.0.0.1:6900", host="login1")
    with pytest.raises(WrongHost):
        find(tmp_path)
    # A typed address of the loopback may be that of a tunnel.
    assert find(tmp_path, DBG_BROKER="127.0.0.1:6900")[0].endpoint.fingerprint == PIN


def opened() -> Outgoing:
    outgoing = Outgoing(lambda: None, lambda: pytest.fail("started afresh"))
    outgoing.open()
    return outgoing


def drain(outgoing: Outgoing) -> list[object]:
    items: list[object] = []
    while (item := outgoing.pop()) is not None:
        items.append(item)
    return items


def test_reports_are_sent_before_later_output() -> None:
    outgoing = opened()
    outgoing.put_report()
    outgoing.put_report()
    outgoing.put_output(b"screen")
    outgoing.put_report()
    outgoing.put_message("applied")
    assert drain(outgoing) == [REPORT_NOW, b"screen", REPORT_NOW, "applied"]


def test_output_beyond_the_bound_is_dropped_whole_and_messages_are_kept() -> None:
    outgoing = opened()
    outgoing.put_message("first")
    for _ in range(MAX_LINK_BACKLOG // 1024 + 1):
        outgoing.put_output(b"x" * 1024)
    outgoing.put_message("last")
    assert outgoing.needs_redraw
    outgoing.put_output(b"more")
    assert drain(outgoing) == ["first", "last"]


def test_consecutive_output_is_one_frame_and_wakes_once() -> None:
    woken: list[bool] = []
    outgoing = Outgoing(lambda: woken.append(True), lambda: pytest.fail("started afresh"))
    outgoing.open()
    whole = b""
    for number in range(1000):
        line = b"%d\n" % number
        outgoing.put_output(encode_data(Output(1, len(whole), line)))
        whole += line
    outgoing.put_output(encode_data(Output(2, 0, b"another session")))
    outgoing.put_report()
    outgoing.put_output(encode_data(Output(2, 15, b"after it")))
    assert len(woken) == 1
    assert drain(outgoing) == [
        encode_data(Output(1, 0, whole)),
        encode_data(Output(2, 0, b"another session")),
        REPORT_NOW,
        encode_data(Output(2, 15, b"after it")),
    ]
    outgoing.put_message("more")
    assert len(woken) == 2
    drain(outgoing)
    # Frames stay within their bound, and gaps stay gaps.
    frames = [encode_data(Output(3, offset, b"x" * 40_000)) for offset in (0, 40_000, 90_000)]
    for frame in frames:
        outgoing.put_output(frame)
    assert drain(outgoing) == frames


@pytest.mark.parametrize(("count", "size"), [(MAX_MESSAGES, 1), (16, MAX_MESSAGE_BYTES // 16)])
def test_too_many_messages_restart_the_link_once(count: int, size: int) -> None:
    afresh: list[bool] = []
    outgoing = Outgoing(lambda: None, lambda: afresh.append(True))
    outgoing.open()
    for _ in range(count):
        outgoing.put_message("m" * size)
    assert not afresh
    for _ in range(3):
        outgoing.put_message("one too many")
        outgoing.put_report()
        outgoing.put_output(b"too late")
    assert afresh == [True]
    assert drain(outgoing) == []
    outgoing.open()
    outgoing.put_message("anew")
    assert drain(outgoing) == ["anew"]


def test_messages_are_dropped_while_the_link_is_down() -> None:
    outgoing = opened()
    outgoing.put_message("old")
    outgoing.close()
    outgoing.put_message("lost")
    outgoing.put_report()
    outgoing.put_output(b"lost")
    outgoing.open()
    assert drain(outgoing) == []
