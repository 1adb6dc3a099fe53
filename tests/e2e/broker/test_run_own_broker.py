"""The broker of a run: a real process that the run finds or starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dbg_broker.home.rendezvous import lock, read_rendezvous
from dbg_broker.run import own_broker
from dbg_broker.run.own_broker import CantServe, Found, find_or_start, notes_of
from dbg_broker.run.settings import Option, Options
from dbg_wire.errors import BrokerUnreachable
from tests.conftest import Approved
from tests.support.serving import Serve, environment
from tests.support.time_unit import seconds

IDLE = {"DBG_IDLE": "0.3"}
Find = Callable[..., Found]


@pytest.fixture
def find(home: Path) -> Iterator[Find]:
    """Find or start a broker; the brokers that were started end with the test."""
    every: list[Found] = []

    def find_one(listen: str = "127.0.0.1:0", options: Options = (), **changes: str) -> Found:
        environ = environment(home, {**IDLE, **changes})
        del environ["PYTHONWARNINGS"]
        every.append(find_or_start(str(home), listen, options, environ))
        return every[-1]

    yield find_one
    for found in every:
        release(found)
    for found in every:
        if found.process is not None:
            found.process.terminate()
            found.process.wait()


def release(found: Found) -> None:
    if found.hold is not None:
        os.close(found.hold)
        object.__setattr__(found, "hold", None)


def serves(home: Path) -> bool:
    free = lock(home)
    if free is not None:
        free.close()
    return free is None


def test_one_is_started_and_ends_once_nobody_needs_it(find: Find, home: Path) -> None:
    found = find()
    assert (found.hold is not None, found.is_loopback) == (True, True)
    rendezvous = read_rendezvous(home)
    assert rendezvous is not None
    assert found.process is not None
    assert (rendezvous.url, rendezvous.pid) == (found.url, found.process.pid)

    release(found)
    assert found.process.wait(seconds(20)) == 0
    assert read_rendezvous(home) is None
    assert (home / own_broker.LOG_FILE).read_text() == ""


def test_one_that_is_there_is_used_and_stays_for_the_last(find: Find, home: Path) -> None:
    first, second = find(), find()
    assert (second.url, second.process) == (first.url, None)
    assert first.process is not None
    release(first)
    assert serves(home)

    release(second)
    assert first.process.wait(seconds(20)) == 0


def test_several_runs_at_once_have_one_broker(find: Find) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(find) for _ in range(4)]]

    assert len({one.url for one in found}) == 1
    assert sum(one.process is not None for one in found) == 1
    assert all(one.hold is not None for one in found)


def test_a_new_one_gets_the_options_of_the_run_and_later_runs_know_them(find: Find) -> None:
    options = (Option("--audit-input"), Option("--max-lease", "8h"))
    first, second = find(options=options), find()
    assert first.process is not None
    assert second.process is None
    assert (first.options, second.options) == (options, options)
    release(first)
    release(second)
    first.process.wait(seconds(20))

    # What the file tells is of another broker now.
    assert find().options == ()


def test_options_that_a_broker_refuses_say_why(approved: Approved, find: Find) -> None:
    with pytest.raises(CantServe) as caught:
        find(options=(Option("--max-lease", "soon"),))
    approved(str(caught.value))


@pytest.mark.parametrize(
    ("found", "options", "command", "says"),
    [
        (Found("wss://a:1", is_loopback=True), (), "python", []),
        (Found("wss://a:1", is_loopback=True), (), "srun", ["wss://a:1"]),
        (Found("wss://a:1"), (Option("--max-lease", "8h"),), "python", ["--max-lease"]),
    ],
)
def test_what_a_user_should_know_of_the_broker_is_told(
    found: Found, options: Options, command: str, says: list[str]
) -> None:
    notes = list(notes_of(found, options, (command, "train.py"), asks_where=False))
    assert len(notes) == len(says)
    assert all(text in note for text, note in zip(says, notes, strict=True))


def test_a_home_that_is_locked_for_long_is_named(
    approved: Approved, find: Find, made_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_broker, "ATTEMPT_PAUSE_SECONDS", 0.001)
    held = lock(made_home)
    assert held is not None
    with held, pytest.raises(CantServe) as caught:
        find()
    approved(str(caught.value))


def test_the_one_that_the_user_names_is_used_or_nothing(
    approved: Approved, find: Find, serve: Serve, home: Path, tmp_path: Path
) -> None:
    serving = serve(at=tmp_path / "other")
    rendezvous = read_rendezvous(tmp_path / "other")
    assert rendezvous is not None
    named = {"DBG_BROKER": str(rendezvous.endpoint), "DBG_TOKEN": rendezvous.tokens["rank"]}
    assert find(**named) == Found(serving.url)

    serving.end()
    with pytest.raises(BrokerUnreachable) as caught:
        find(**named)
    approved(str(caught.value))
    assert not home.exists()
