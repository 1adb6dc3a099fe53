"""From a target to sessions, and to the exit status: a real terminal on a scripted broker."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import Action, Attach, Change, Kind, Mode, Question, RankAnswer, RankReport, Report, Subscribe
from dbg_wire.records.ranks import DIED, RankInfo, RankState
from tests.e2e.client.test_terminal_raw import Window
from tests.support.rank_infos import changed
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None, since=1760000001.0)


STOPPED = make_rank(5)


STOPPED_AGAIN = make_rank(5, since=1760000002.0)


GONE_ON = Report(report=RankReport(state=RankState.RUNNING))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as serving:
        yield serving


def listed(broker: FakeBroker, *ranks: RankInfo) -> None:
    broker.ranks = {rank.key: rank for rank in ranks}


def tell(broker: FakeBroker, rank: RankInfo) -> None:
    broker.ranks[rank.key] = rank
    broker.tell(Change(rank=rank))


@pytest.mark.parametrize(
    ("rank", "target", "ends"),
    [
        (RUNNING, "5", (1, "gpu013:5 is running; `dbg-attach wait 5`")),
        (make_rank(5, state=RankState.LOST), "5", (1, "gpu013:5")),
        (STOPPED, "9", (3, "no rank fits '9'")),
        (STOPPED, "gpu[", (2, "gpu[")),
        (make_rank(5, state=RankState.EXITED, exit=1), "5", (8, "gpu013:5 has exited with status 1")),
    ],
)
def test_a_target_that_can_not_be_attached_to(
    rank: RankInfo, target: str, ends: tuple[int, str], broker: FakeBroker, environ: dict[str, str]
) -> None:
    status, said = ends
    listed(broker, rank)
    with Window(broker, environ, target) as window:
        assert window.exit_status() == status
        assert said in window.text
        assert window.text.count("dbg-attach: ") == 1


def test_a_target_of_two_jobs_is_refused_with_the_candidates(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, STOPPED, make_rank(5, job="4712.0", key="other"))
    with Window(broker, environ) as window:
        assert window.exit_status() == 2
        assert "`dbg-attach 4711.0/5`, `dbg-attach 4712.0/5`" in window.text


def test_a_local_number_is_said_to_be_one(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, make_rank(13, local_rank=5))
    with Window(broker, environ, "gpu013:5") as window:
        window.wait_for("PUDB SCREEN")
        assert b"Attached to gpu013:13 (PuDB)." in window.output
        assert b"local" in window.output


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


def test_waiting_also_for_a_rank_that_is_not_there_yet(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "wait", "gpu013:5") as window:
        window.wait_for("Waiting for gpu013:5")
        tell(broker, STOPPED)

        window.opened()


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


def test_following_comes_back_at_the_next_stop_and_not_at_the_one_that_ended(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    listed(broker, STOPPED)
    with Window(broker, environ, "--follow", "5") as window:
        before = window.settings()
        window.opened()
        broker.tell(GONE_ON)
        window.wait_for("gpu013:5 went on.")
        window.wait_for("Waiting for 5 to stop")
        assert window.settings() == before

        tell(broker, RUNNING)
        tell(broker, STOPPED_AGAIN)
        window.opened()
        broker.wait_for(Attach, count=2)
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_the_signal_that_killed_the_rank_is_told_once(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, STOPPED)
    with Window(broker, environ, "5") as window:
        window.opened()
        gone = make_rank(5, state=RankState.EXITED, reason=DIED)
        tell(broker, gone)
        tell(broker, changed(gone, exit=-9))
        assert window.exit_status() == 8
        assert "gpu013:5 was killed by SIGKILL" in window.text
        assert "died" not in window.text


def test_following_goes_over_to_the_next_launch(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, STOPPED)
    with Window(broker, environ, "--follow", "5") as window:
        window.opened()
        tell(broker, make_rank(5, state=RankState.EXITED, exit=1))
        window.wait_for(re.compile("gpu013:5 .*status 1\\b"))
        again = make_rank(5, job="4712.0", key="4712.0/0.0/gpu020:5/9", host="gpu020", address="gpu020:5")
        tell(broker, again)

        window.wait_for(lambda it: it.row(-1).startswith(" gpu020:5"))
        assert broker.wait_for(Attach, count=2).key == again.key


def test_following_begins_with_waiting(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, RUNNING)
    with Window(broker, environ, "--follow", "5") as window:
        window.wait_for("Waiting for 5 to stop")


def test_a_relaunch_that_stops_is_found_among_others(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, make_rank(4), STOPPED, make_rank(6))
    with Window(broker, environ, "wait", "all", "--follow") as window:
        window.wait_for(lambda it: it.row(-1).startswith(" gpu013:4"))


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


@pytest.mark.parametrize(("option", "mode"), [(None, Mode.TAKE), ("--watch", Mode.WATCH)])
def test_a_running_rank_is_broken_into_from_the_picker(
    option: str | None, mode: Mode, broker: FakeBroker, environ: dict[str, str]
) -> None:
    listed(broker, RUNNING)
    broker.answers[Action.INTERRUPT] = RankAnswer(key="", kind=Kind.RUNNING, text="in C code")
    with Window(broker, environ, "--no-status", *([option] if option else [])) as window:
        window.wait_for("gpu013:5 is running")
        window.send("\r")
        window.wait_for("[y/N]")
        window.send("n")
        window.wait_for("Enter ")
        assert not [item for item in broker.received if isinstance(item, Question)]
        window.send("\ry")
        window.wait_for(re.compile("gpu013:5 .*Esc"))
        broker.wait_for(Question, lambda question: question.action is Action.INTERRUPT)
        tell(broker, STOPPED_AGAIN)
        attached = broker.wait_for(Attach)
        assert (attached.key, attached.mode) == (STOPPED.key, mode)
        window.wait_for("PUDB SCREEN")


def test_a_break_in_that_is_given_up_is_withdrawn(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, RUNNING)
    broker.answers[Action.INTERRUPT] = RankAnswer(key="", kind=Kind.RUNNING, text="in C code")
    with Window(broker, environ, "--no-status") as window:
        window.wait_for("Enter ")
        window.send("\ry")
        window.wait_for("breaking into gpu013:5")
        broker.wait_for(Question)
        window.send("\x1b")
        broker.wait_for(Question, lambda question: question.withdrawn)
        window.wait_for("Enter ")


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


def test_letters_ask_the_selected_ranks_and_the_answer_is_a_page(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, *map(make_rank, range(4)))
    broker.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.VALUE, text="0.25", digest="d")
    with Window(broker, environ, "--no-status", cols=120) as window:
        window.wait_for("4 of 4")
        window.send(" ")
        window.wait_for("1 selected")
        window.send("\t")
        window.wait_for(re.compile(r" \*gpu013:0 .*\n \*gpu013:1 ", re.DOTALL))
        window.send("e")
        window.wait_for(" expression for 2 ranks:")
        window.send("loss, lr\r")
        window.wait_for("loss, lr: 2 of 2 ranks answered, 1 value")
        asked = broker.wait_for(Question)
        assert (asked.text, set(asked.keys)) == ("loss, lr", {make_rank(0).key, make_rank(1).key})
        window.send("nonsense, dropped")
        window.wait_for("nothing")
        window.send("\x1b")
        window.wait_for("2 selected")
        window.send("?")
        window.wait_for(" pdb ")
        window.send("\x1b")
        window.wait_for("2 selected")
        window.send("\x1bi")
        window.wait_for("q ")
        assert broker.wait_for(Question, lambda question: question.action is Action.INTERRUPT).keys == (
            make_rank(2).key,
        )
