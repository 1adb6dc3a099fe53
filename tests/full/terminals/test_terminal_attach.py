"""From a target to sessions, and to the exit status: a real terminal on a scripted broker."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import Attach, Change, Subscribe
from dbg_wire.records.ranks import RankInfo, RankState
from tests.e2e.client.test_terminal_raw import Window
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None, since=1760000001.0)


STOPPED = make_rank(5)


STOPPED_AGAIN = make_rank(5, since=1760000002.0)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as serving:
        yield serving


def listed(broker: FakeBroker, *ranks: RankInfo) -> None:
    broker.ranks = {rank.key: rank for rank in ranks}


def tell(broker: FakeBroker, rank: RankInfo) -> None:
    broker.ranks[rank.key] = rank
    broker.tell(Change(rank=rank))


def test_waiting_attaches_as_soon_as_the_rank_stops(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, RUNNING)
    with Window(broker, environ, "wait", "5") as window:
        window.wait_for(re.compile("for 5 .*Ctrl-C"))
        window.send("q\r")
        window.wait_for("q")
        tell(broker, STOPPED_AGAIN)

        window.opened()
        window.send("n")
        assert broker.wait_for(Input).data == b"n"  # and not the keys that were typed during the wait


def test_waiting_has_an_end_and_can_be_given_up(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, RUNNING)
    with Window(broker, environ, "wait", "5", "--for", "0.2") as window:
        assert window.exit_status() == 6
        assert "0.2 s" in window.text
    with Window(broker, environ, "wait", "5") as window:
        window.wait_for("Waiting for 5")
        window.send("\x03")
        assert window.exit_status() == 130


def test_waiting_goes_on_over_a_restart_of_the_broker(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, RUNNING)
    with Window(broker, environ, "wait", "5") as window:
        window.wait_for("Waiting for 5")
        broker.stop()
        window.wait_for(re.compile("broker .*reconnecting"))
        with FakeBroker(STOPPED_AGAIN, port=broker.port):
            window.wait_for("PUDB SCREEN")
            assert b"The broker is back." in window.output


def test_without_a_target_one_picks(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, make_rank(4), STOPPED)
    with Window(broker, environ, "--escape", "^]") as window:
        window.wait_for("Pick ")
        window.send("/:5\r")
        window.opened()
        assert broker.wait_for(Attach).key == STOPPED.key


@pytest.mark.parametrize(("key", "status"), [("q", 0), ("\x1b", 0), ("\x03", 130)])
def test_picking_nothing_leaves(key: str, status: int, broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "--no-status") as window:
        before = window.settings()
        window.wait_for("broker at ws://127.0.0.1")
        window.send(key)
        assert window.exit_status() == status
        assert window.settings() == before
        assert 1049 not in window.virtual.private_modes


def test_the_picker_follows_the_ranks_and_the_broker(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, RUNNING, make_rank(6, state=RankState.RUNNING, where=None, reason=None))
    with Window(broker, environ, "--no-status") as window:
        window.wait_for("gpu013:5 is running")
        window.send("\x1b[B")
        window.wait_for("gpu013:6 is running")
        window.send("\x1b[A")
        window.wait_for("gpu013:5 is running")
        tell(broker, STOPPED_AGAIN)
        window.wait_for("Enter ")
        broker.stop()
        window.wait_for("reconnecting")
        with FakeBroker(STOPPED, make_rank(7), port=broker.port) as again:
            again.wait_for(Subscribe)
            window.wait_for("gpu013:7")
            # The last line is drawn after the list.
            window.wait_for(lambda it: "broker gone" not in "\n".join(it.screen))


@pytest.mark.parametrize("keys", ["", "?", "e"])
def test_a_window_that_is_closed_at_the_picker_is_no_error(
    keys: str, broker: FakeBroker, environ: dict[str, str], tmp_path: Path
) -> None:
    listed(broker, STOPPED)
    said = tmp_path / "stderr"
    command = ["sh", "-c", f'exec "$0" -m dbg_client 2> {said}', sys.executable]
    with Terminal(command, 24, 80, {**environ, **broker.environment}) as window:
        window.wait_for("1 of 1 rank")
        window.send(keys)
        window.wait_for({"": "Enter ", "?": "q ", "e": "1 rank"}[keys])
        window.close_window()

        assert window.exit_status() == 0
    assert said.read_text() == ""
