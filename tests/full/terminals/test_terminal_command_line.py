"""The command line of a session, in a real terminal on a scripted broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import (
    Action,
    Attach,
    Change,
    Detach,
    Kind,
    Question,
    RankAnswer,
    RankReport,
    Reply,
    Report,
    Resize,
)
from dbg_wire.records.ranks import RankState
from tests.e2e.client import test_terminal_raw as test_raw
from tests.full.terminals import test_terminal_line_display as test_line_display
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import HERE, FakeBroker, make_pdb_report, make_prompt, make_rank

RANK = make_rank(5)


HELD = make_rank(7, state=RankState.HELD, reason=None)


OPEN = "\x1d:"


BACK = "q goes back"


BEFORE = b"> train.py(41)step()\n-> loss.backward()\n"


PROMPT = make_prompt(1, len(BEFORE))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(RANK, make_rank(6), HELD) as serving:
        serving.answers[Action.WHERE] = RankAnswer(key="", kind=Kind.VALUE, text="", frames=(HERE,))
        serving.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.VALUE, text="0.25", digest="d")
        serving.answers[Action.RELEASE] = RankAnswer(key="", kind=Kind.VALUE, text="released")
        yield serving


@pytest.fixture
def window(broker: FakeBroker, environ: dict[str, str]) -> Iterator[test_raw.Window]:
    with test_raw.Window(broker, environ, cols=120) as opened:
        opened.opened()
        yield opened


def asked(broker: FakeBroker, action: Action, count: int = 1) -> Question:
    return broker.wait_for(Question, lambda question: question.action is action, count)


def shows(window: test_raw.Window, *texts: str) -> str:
    """Wait until a page has all these texts; return it."""
    window.wait_for(lambda it: BACK in it.row(-1) and all(text in "\n".join(it.screen) for text in texts))
    return "\n".join(window.screen)


def back(window: test_raw.Window) -> None:
    """Wait until the debugger and its status line are there as they were."""

    def shown(it: Terminal) -> bool:
        first, *between, last = it.screen
        return first == "PUDB SCREEN" and not any(between) and last.startswith(" gpu013:5  stopped  train.py:41")

    window.wait_for(shown)


def test_the_command_is_typed_below_the_debugger_and_its_answer_fills_the_screen(
    broker: FakeBroker, window: test_raw.Window
) -> None:
    window.send(OPEN)
    window.wait_for(lambda it: it.row(-1).startswith(":where   e 0-7 loss"))
    assert window.row(0) == "PUDB SCREEN"
    window.send("where all\r")
    shows(window, "where: 3 of 3 ranks answered, 1 stack", "step train.py:41")
    window.send("q")
    back(window)

    window.send("abc")

    broker.wait_for(Input, lambda keys: keys.data.endswith(b"c"))
    assert broker.typed() == b"abc"
    assert set(asked(broker, Action.WHERE).keys) == {RANK.key, make_rank(6).key, HELD.key}


def test_keys_typed_ahead_reach_the_command_and_keys_at_its_page_are_dropped(
    broker: FakeBroker, window: test_raw.Window
) -> None:
    window.send(f"ab{OPEN}e 5-6 lossy\x7f, lr\rnnn")
    shows(window, "loss, lr: 2 of 2 ranks answered, 1 value", "0.25")
    window.send("e all rank\r\x1b[Bq")
    back(window)
    window.send("cd")

    broker.wait_for(Input, lambda keys: keys.data.endswith(b"d"))
    assert broker.typed() == b"abcd"
    assert asked(broker, Action.EVAL).text == "loss, lr"


@pytest.mark.parametrize("key", ["\x1b", "\x03", "\r"])
def test_leaving_the_command_line_sends_no_question(key: str, broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(OPEN)
    window.wait_for("Esc leaves")
    window.send(key)
    back(window)

    window.send("x")

    broker.wait_for(Input)
    assert broker.typed() == b"x"
    assert not [item for item in broker.received if isinstance(item, Question)]


def test_arrow_keys_recall_earlier_commands(broker: FakeBroker, window: test_raw.Window) -> None:
    for command in ("list", "e 5 lr"):
        window.send(f"{OPEN}{command}\r")
        shows(window)
        window.send("q")
        back(window)
    window.send(f"{OPEN}dra")
    window.wait_for(lambda it: it.row(-1) == ":dra")
    window.send("\x1b[A\x1b[A")
    window.wait_for(lambda it: it.row(-1) == ":list")
    window.send("\x1b[B")
    window.wait_for(lambda it: it.row(-1) == ":e 5 lr")
    window.send("\x1b[B")
    window.wait_for(lambda it: it.row(-1) == ":dra")


def test_interrupting_several_ranks_asks_for_confirmation(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.answers[Action.INTERRUPT] = RankAnswer(key="", kind=Kind.VALUE, text="stopped")
    for number in (6, 7):
        broker.send_all(Change(rank=make_rank(number, state=RankState.RUNNING, where=None, reason=None)))
    window.send(f"{OPEN}interrupt all\r")
    window.wait_for(lambda it: it.row(-1).startswith("Break into 2 ranks (gpu013:6, gpu013:7)? [y/N]"))
    window.send("n")
    shows(window, "Nothing was done.")
    assert not [item for item in broker.received if isinstance(item, Question)]

    window.send(f"q{OPEN}i all -y\r")

    assert len(asked(broker, Action.INTERRUPT).keys) == 3


def test_pasted_lines_are_one_command(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}e 5 \x1b[200~max(1,\n2)\x1b[201~\r")
    shows(window, "1 of 1 rank answered")

    assert asked(broker, Action.EVAL).text == "max(1, 2)"


def test_errors_are_shown_on_the_page(broker: FakeBroker, window: test_raw.Window) -> None:
    for command, error in (
        ("nonsense", "'nonsense'"),
        ("release 5", "gpu013:5"),
        ("where 99", "no rank fits '99'"),
        ("c all q", "`q` is not for 3 ranks at once"),
    ):
        window.send(f"{OPEN}{command}\r")
        shows(window, error)
        window.send("q")
        back(window)
    window.send(f"{OPEN}help\r")
    shows(window, "e, eval [TARGET] EXPR")


def test_a_lost_broker_is_reported_and_the_session_reconnects(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.silent.add(Question)
    window.send(f"{OPEN}where\r")
    asked(broker, Action.WHERE)
    broker.cut()

    shows(window, "broker ")
    broker.wait_for(Attach, count=2)
    window.send("q")
    back(window)
    window.send("x")
    broker.wait_for(Input)


def test_a_resize_is_reported_and_the_page_follows(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}list\r")
    shows(window, "gpu013:5  stopped")
    window.resize(30, 100)
    # less sleeps through a signal that comes right before it waits for a key.
    window.send("r")
    window.wait_for(lambda it: BACK in it.row(29))
    window.send("q")

    broker.wait_for(Resize, lambda resize: (resize.rows, resize.columns) == (29, 100))
    back(window)


def test_a_rank_that_continues_ends_the_session_and_restores_the_terminal(
    broker: FakeBroker, window: test_raw.Window
) -> None:
    before = window.settings()
    window.send(f"{OPEN}where")
    window.wait_for(":where")
    broker.send_all(Report(report=RankReport(state=RankState.RUNNING)))

    assert window.exit_status() == 7
    assert window.settings() != before
    assert "gpu013:5 resumed" in window.text


@pytest.mark.parametrize("command", ["", "where", "where\r"])
def test_closing_the_window_detaches(command: str, broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}{command}")
    window.wait_for(BACK if command.endswith("\r") else f":{command}")
    window.close_window()

    assert window.exit_status() == 0
    broker.wait_for(Detach)


def test_a_half_typed_line_is_kept(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.reports[RANK.key] = make_pdb_report(PROMPT)
    broker.log = BEFORE
    with test_line_display.Window(broker, environ) as window:
        window.at_prompt()
        window.send("half")
        window.at_prompt("(Pdb) half")
        window.wait_for(lambda it: window.toolbar.endswith("d detaches"))
        before = window.text
        window.send(f"{OPEN}e 5-6 loss\r")
        window.wait_for(lambda it: BACK in it.row(-1) and "2 of 2 ranks" in it.row(0))
        window.send("e all rank\rq")
        window.wait_for(lambda it: window.text == before)

        window.send(f"{OPEN}where\r")
        window.wait_for(BACK)
        broker.write("printed meanwhile\n")
        window.send("q")
        window.at_prompt("(Pdb) half")
        window.send(" way\r")

        assert broker.wait_for(Reply).text == "half way"
        window.wait_for("printed meanwhile")
