"""Commands of a shell in a real terminal on a scripted broker: waiting, picking, a pager and Ctrl-C."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import Action, Change, Kind, Question, RankAnswer, Subscribe
from dbg_wire.records.ranks import RankInfo, RankState
from tests.e2e.client.test_cli import command
from tests.e2e.client.test_terminal_raw import Window
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

WAITED_FOR = make_rank(5, state=RankState.RUNNING, where=None, reason=None, since=1760000001.0)


STOPPED = make_rank(5)


STOPPED_AGAIN = make_rank(5, since=1760000002.0)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as serving:
        yield serving


def listed(broker: FakeBroker, *ranks: RankInfo) -> None:
    broker.ranks = {rank.key: rank for rank in ranks}


def send_change(broker: FakeBroker, rank: RankInfo) -> None:
    broker.ranks[rank.key] = rank
    broker.send_all(Change(rank=rank))


def test_waiting_attaches_as_soon_as_the_rank_stops(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, WAITED_FOR)
    with Window(broker, environ, "wait", "5") as window:
        window.wait_for(re.compile("for 5 .*Ctrl-C"))
        window.send("q\r")
        window.wait_for("q")
        send_change(broker, STOPPED_AGAIN)

        window.opened()
        window.send("n")
        assert broker.wait_for(Input).data == b"n"  # and not the keys that were typed during the wait


@pytest.mark.parametrize(("key", "status"), [("\x1b", 0), ("\x03", 130)])
def test_leaving_the_picker_ends_attach(key: str, status: int, broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "--no-status") as window:
        before = window.settings()
        window.wait_for("Esc leaves")
        window.send(key)
        assert window.exit_status() == status
        assert window.settings() == before
        assert 1049 not in window.virtual.private_modes


def test_the_picker_follows_the_ranks_and_the_broker(broker: FakeBroker, environ: dict[str, str]) -> None:
    listed(broker, WAITED_FOR, make_rank(6, state=RankState.RUNNING, where=None, reason=None))
    with Window(broker, environ, "--no-status") as window:
        window.wait_for("gpu013:5 is running")
        window.send("\x1b[B")
        window.wait_for("gpu013:6 is running")
        window.send("\x1b[A")
        window.wait_for("gpu013:5 is running")
        send_change(broker, STOPPED_AGAIN)
        window.wait_for("Enter ")
        broker.stop()
        window.wait_for("reconnecting")
        with FakeBroker(STOPPED, make_rank(7), port=broker.port) as again:
            again.wait_for(Subscribe)
            window.wait_for("gpu013:7")
            # The last line is drawn after the list.
            window.wait_for(lambda it: "broker gone" not in "\n".join(it.screen))


RANKS = (make_rank(4), make_rank(5))


def typed(broker: FakeBroker, environ: dict[str, str], *words: str, cols: int = 80, **more: str) -> Terminal:
    """Return a terminal in which a command has been typed."""
    return Terminal(command(*words), 24, cols, {**environ, **broker.environment, **more})


def answered(broker: FakeBroker, question: Question, keys: Sequence[str] = (), *, last: bool = True) -> None:
    value = RankAnswer(key="", kind=Kind.VALUE, text="0.25", digest="d")
    broker.reply(question, dict.fromkeys(keys or question.keys, value), last=last)


def test_a_line_shows_the_number_of_answers_and_disappears(environ: dict[str, str]) -> None:
    with FakeBroker(*RANKS) as broker:
        broker.silent.add(Question)
        with typed(broker, environ, "eval", "all", "loss", cols=40) as terminal:
            question = broker.wait_for(Question)
            answered(broker, question, question.keys[:1], last=False)
            terminal.wait_for(re.compile(r"^1 of 2 ranks answered \(\d s\)$", re.MULTILINE))
            answered(broker, question)
            assert terminal.exit_status() == 0
            rows = [row for row in terminal.screen if row.strip()]
            assert [row.split()[0] for row in rows] == ["loss:", "@1"]


MANY = 50
MARKS = "sed 's/^/paged /'"


@pytest.fixture
def crowd() -> Iterator[FakeBroker]:
    with FakeBroker(*map(make_rank, range(MANY))) as serving:
        yield serving


def shown(crowd: FakeBroker, environ: dict[str, str], *words: str, **more: str) -> tuple[int, str]:
    """Return exit status and screen of a terminal with fewer rows than ranks."""
    with typed(crowd, environ, *words, cols=120, **more) as window:
        status = window.exit_status()
        return status, "\n".join(window.screen)


@pytest.mark.parametrize(
    ("words", "pager", "paged"),
    [
        (["list", "--all-rows"], MARKS, True),
        (["list", "--all-rows"], "cat", False),
        (["list", "--all-rows"], "", False),
        (["list", "--all-rows", "--no-pager"], MARKS, False),
        (["list", "--all-rows", "--json"], MARKS, False),
        (["list", "5", "--all-rows"], MARKS, False),
        (["list", "--all-rows"], "/no/such/pager", False),
    ],
)
def test_a_long_answer_is_shown_in_the_users_pager(
    words: list[str], pager: str, paged: bool, crowd: FakeBroker, environ: dict[str, str]
) -> None:
    status, screen = shown(crowd, environ, *words, PAGER=pager)

    assert status == 0
    assert ("paged" in screen) == paged
    assert "gpu013:5" in screen if "5" in words else f"gpu013:{MANY - 1}" in screen


def test_leaving_the_pager_at_once_keeps_the_status_of_the_command(crowd: FakeBroker, environ: dict[str, str]) -> None:
    text = "\n".join(f"row {number}" for number in range(MANY))
    crowd.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.SILENT, text="")
    crowd.answers[Action.COMMAND] = RankAnswer(key="", kind=Kind.VALUE, text=text, digest="d")

    assert shown(crowd, environ, "list", "--all-rows", PAGER="true")[0] == 0
    status, screen = shown(crowd, environ, "command", "all", "p x", "--fail-if-differ", PAGER="true")
    assert (status, screen.strip()) == (0, "")
    assert shown(crowd, environ, "eval", "all", "x", PAGER="true")[0] == 6


def test_the_pager_gets_ctrl_c(crowd: FakeBroker, environ: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "pager"
    script.write_text("#!/bin/sh\ntrap 'echo mine; exit 0' INT\necho ready\ncat > /dev/null\nread line < /dev/tty\n")
    script.chmod(0o700)
    with typed(crowd, environ, "list", "--all-rows", PAGER=str(script)) as window:
        window.wait_for("ready")
        window.send("\x03")
        window.wait_for("mine")

        assert window.exit_status() == 0
