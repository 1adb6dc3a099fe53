"""The broker of a run: a real process that the run finds or starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dbg_broker.home.rendezvous import lock, read_rendezvous
from dbg_client.run import own_broker
from dbg_client.run.own_broker import BrokerInUse, CantServe, find_or_start, notes_of
from dbg_wire.errors import BrokerUnreachable
from tests.conftest import Approved
from tests.support.runs import ends_within
from tests.support.serving import Serve, environment
from tests.support.time_unit import seconds

Find = Callable[..., BrokerInUse]


@pytest.fixture
def find(home: Path) -> Iterator[Find]:
    """Find or start a broker; the brokers that were started end with the test."""
    every: list[BrokerInUse] = []

    def find_one(listen: str = "127.0.0.1:0", **changes: str) -> BrokerInUse:
        environ = environment(home, changes)
        del environ["PYTHONWARNINGS"]
        every.append(find_or_start(listen, environ))
        return every[-1]

    yield find_one
    for found in every:
        if found.process is not None:
            found.process.terminate()
            found.process.wait()


def test_a_broker_is_started_and_ends_when_it_is_idle(find: Find, home: Path) -> None:
    found = find(DBG_IDLE="0.3")
    assert found.is_loopback
    assert found.process is not None
    assert found.process.wait(seconds(20)) == 0
    assert read_rendezvous(home) is None
    assert (home / own_broker.LOG_FILE).read_text() == ""


def test_a_running_broker_is_used(find: Find) -> None:
    first, second = find(), find()
    assert first.process is not None
    assert (second.url, second.process) == (first.url, None)


def test_a_found_broker_stays_until_the_terminal_connects(find: Find) -> None:
    idle = seconds(2)
    first = find(DBG_IDLE=str(idle))
    assert first.process is not None
    for _ in range(3):
        assert not ends_within(first.process.pid, 0.6 * idle)
        assert find().process is None


def test_several_runs_at_once_share_one_broker(find: Find) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(find) for _ in range(4)]]
    assert len({one.url for one in found}) == 1
    assert sum(one.process is not None for one in found) == 1


def test_another_broker_at_the_address_of_a_dead_one_is_not_used(
    find: Find, serve: Serve, home: Path, tmp_path: Path
) -> None:
    other = serve(at=tmp_path / "other")
    first = find()
    assert first.process is not None
    left = (home / "broker.json").read_text()
    first.process.kill()
    first.process.wait()
    for url in (other.url, first.url):
        (home / "broker.json").write_text(left.replace(first.url, url))
        found = find()
        assert found.process is not None
        assert found.url != other.url
        found.process.kill()
        found.process.wait()


def test_an_address_that_the_broker_refuses_is_reported_with_the_reason(approved: Approved, find: Find) -> None:
    with pytest.raises(CantServe) as caught:
        find("h:x")
    approved(str(caught.value))


def test_a_home_locked_by_another_process_is_reported(find: Find, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_broker, "ATTEMPTS", 2)
    held = lock(home)
    assert held is not None
    with held, pytest.raises(CantServe):
        find()


@pytest.mark.parametrize(
    ("found", "listen", "command", "texts"),
    [
        (BrokerInUse("wss://a:1", is_loopback=True), None, "python", []),
        (BrokerInUse("wss://a:1", is_loopback=True), None, "srun", ["wss://a:1"]),
    ],
)
def test_notes_on_the_broker_are_shown_to_the_user(
    found: BrokerInUse, listen: str | None, command: str, texts: list[str]
) -> None:
    notes = list(notes_of(found, listen, (command, "train.py")))
    assert len(notes) == len(texts)
    assert all(text in note for text, note in zip(texts, notes, strict=True))


def test_only_the_broker_that_the_user_names_is_used(
    approved: Approved, find: Find, serve: Serve, home: Path, tmp_path: Path
) -> None:
    serving = serve(at=tmp_path / "other")
    rendezvous = read_rendezvous(tmp_path / "other")
    assert rendezvous is not None
    named = {"DBG_BROKER": str(rendezvous.endpoint), "DBG_TOKEN": rendezvous.tokens["rank"]}
    assert find(**named) == BrokerInUse(serving.url)

    serving.end()
    with pytest.raises(BrokerUnreachable) as caught:
        find(**named)
    approved(str(caught.value))
    assert not (home / "broker.json").exists()
