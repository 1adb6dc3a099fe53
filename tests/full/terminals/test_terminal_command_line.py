"""The command line of a session, in a real terminal on a scripted broker."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import (
    Action,
    Attach,
    Change,
    Detach,
    Kind,
    Mode,
    Progress,
    Pulse,
    Question,
    RankAnswer,
    RankReport,
    Refusal,
    RefusalCode,
    Repaint,
    Reply,
    Report,
    Resize,
)
from dbg_wire.records.ranks import RankState
from tests.e2e.client import test_terminal_raw as test_raw
from tests.full.terminals import test_terminal_line_display as test_line_display
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import HERE, FakeBroker, make_pdb_report, make_prompt, make_rank, make_report

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


def test_keys_typed_ahead_go_to_the_command_and_those_at_its_page_to_nobody(
    broker: FakeBroker, window: test_raw.Window
) -> None:
    window.send(f"ab{OPEN}e 5-6 lossy\x7f, lr\rnnn")
    shows(window, "loss, lr: 2 of 2 ranks answered, 1 value", "0.25")
    window.send("e all rank\r")
    window.wait_for("nothing")
    window.send("\x1b[B\x1b")
    back(window)
    window.send("cd")

    broker.wait_for(Input, lambda keys: keys.data.endswith(b"d"))
    assert broker.typed() == b"abcd"
    assert asked(broker, Action.EVAL).text == "loss, lr"


def test_a_page_takes_the_next_command_and_the_prefix(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}e 5 loss\r")
    shows(window, "loss: 1 of 1")
    window.send(":")
    window.wait_for(lambda it: it.row(-1).startswith(":where   e 0-7 loss"))
    window.send("where\r")
    shows(window, "where: 3 of 3")
    window.send("\x1dd")

    assert window.exit_status() == 0
    broker.wait_for(Detach)
    assert broker.typed() == b""


def test_without_a_status_line_the_row_is_the_debuggers_and_comes_back(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    broker.screen = b"PUDB SCREEN\x1b[24;1HLAST ROW"
    with test_raw.Window(broker, environ, "5", "--no-status") as window:
        window.wait_for("LAST ROW")
        window.send(OPEN)
        window.wait_for(lambda it: it.row(-1).startswith(":where") and it.row(0) == "PUDB SCREEN")
        window.send("\x1b")
        window.wait_for(lambda it: it.row(-1) == "LAST ROW")


@pytest.mark.parametrize("key", ["\x1b", "\x03", "\x7f", "\r"])
def test_leaving_the_command_line_asks_nothing(key: str, broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(OPEN)
    window.wait_for("Esc leaves")
    window.send(key)
    back(window)

    window.send("x")

    broker.wait_for(Input)
    assert broker.typed() == b"x"
    assert not [item for item in broker.received if isinstance(item, Question)]


def test_what_was_typed_before_comes_back_with_the_arrow(broker: FakeBroker, window: test_raw.Window) -> None:
    for command in ("list", "e 5 lr"):
        window.send(f"{OPEN}{command}\r")
        shows(window)
        window.send("q")
        back(window)
    window.send(f"{OPEN}dra\x1b[A\x1b[A")
    window.wait_for(lambda it: it.row(-1) == ":list")
    window.send("\x1b[B")
    window.wait_for(lambda it: it.row(-1) == ":e 5 lr")
    window.send("\x1b[B")
    window.wait_for(lambda it: it.row(-1) == ":dra")


def test_held_ranks_are_let_go(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}release\r")
    shows(window, "gpu013:7 released")

    assert asked(broker, Action.RELEASE).keys == (HELD.key,)


def test_without_held_ranks_there_is_nobody_to_release(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.tell(Change(rank=make_rank(7, state=RankState.RUNNING, where=None)))
    window.send(f"{OPEN}list\r")
    shows(window, "running")
    window.send(f"q{OPEN}release\r")

    shows(window, "none of 3 ranks")


def test_breaking_into_several_ranks_asks_first(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.answers[Action.INTERRUPT] = RankAnswer(key="", kind=Kind.VALUE, text="stopped")
    for number in (6, 7):
        broker.tell(Change(rank=make_rank(number, state=RankState.RUNNING, where=None, reason=None)))
    window.send(f"{OPEN}interrupt all\r")
    window.wait_for(lambda it: it.row(-1).startswith("Break into 2 ranks (gpu013:6, gpu013:7)? [y/N]"))
    window.send("n")
    shows(window, "Nothing was done.")
    assert not [item for item in broker.received if isinstance(item, Question)]

    window.send(f"q{OPEN}i all -y\r")

    assert len(asked(broker, Action.INTERRUPT).keys) == 3


def test_the_one_rank_that_was_broken_into_is_gone_to_and_its_keyboard_taken(
    broker: FakeBroker, window: test_raw.Window
) -> None:
    broker.answers[Action.INTERRUPT] = RankAnswer(key="", kind=Kind.RUNNING, text="in C code")
    broker.tell(Change(rank=make_rank(6, state=RankState.RUNNING, where=None, reason=None)))
    window.send(f"{OPEN}interrupt 6\r")
    asked(broker, Action.INTERRUPT)
    broker.tell(Change(rank=make_rank(6)))
    attached = broker.wait_for(Attach, count=2)
    assert (attached.key, attached.mode) == (make_rank(6).key, Mode.TAKE)


def test_a_break_in_that_is_given_up_in_the_row_is_withdrawn(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.answers[Action.INTERRUPT] = RankAnswer(key="", kind=Kind.RUNNING, text="in C code")
    broker.tell(Change(rank=make_rank(6, state=RankState.RUNNING, where=None, reason=None)))
    window.send(f"{OPEN}interrupt 6\r")
    asked(broker, Action.INTERRUPT)
    window.send("\x1b")
    broker.wait_for(Question, lambda question: question.withdrawn)


def test_pasted_lines_are_one_command(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}e 5 \x1b[200~max(1,\n2)\x1b[201~\r")
    shows(window, "1 of 1 rank answered")

    assert asked(broker, Action.EVAL).text == "max(1, 2)"


def test_what_is_wrong_is_said_on_the_page(broker: FakeBroker, window: test_raw.Window) -> None:
    for command, says in (
        ("nonsense", "'nonsense'"),
        ("release 5", "gpu013:5"),
        ("where 99", "no rank fits '99'"),
        ("c all q", "`q` is not for 3 ranks at once"),
    ):
        window.send(f"{OPEN}{command}\r")
        shows(window, says)
        window.send("q")
        back(window)
    window.send(f"{OPEN}help\r")
    shows(window, "e, eval [TARGET] EXPR")


def test_a_refused_question_says_so_and_the_session_goes_on(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.silent.add(Question)
    window.send(f"{OPEN}e 5 loss\r")
    question = asked(broker, Action.EVAL)
    broker.tell(Refusal(code=RefusalCode.ROLE, text="only watch", request=question.request))

    shows(window, "refused")
    window.send("q")
    back(window)


def test_giving_up_leaves_the_answer_that_comes_late_to_nobody(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.silent.add(Question)
    window.send(f"{OPEN}e 5 loss\r")
    first = asked(broker, Action.EVAL)
    window.wait_for(re.compile(":e 5 loss .*Esc"))
    window.send("\x03")
    back(window)
    window.send(f"{OPEN}e 5 lr\r")
    second = asked(broker, Action.EVAL, 2)

    broker.reply(first, {RANK.key: RankAnswer(key="", kind=Kind.VALUE, text="late", digest="l")})
    broker.reply(second, {RANK.key: RankAnswer(key="", kind=Kind.VALUE, text="timely", digest="t")})

    assert "late" not in shows(window, "timely")


def test_the_row_says_who_has_not_answered(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.silent.add(Question)
    window.send(f"{OPEN}e 5-6 loss\r")
    question = asked(broker, Action.EVAL)
    broker.tell(Progress(request=question.request, asked=2, answered=1, waiting=question.keys[:1]))
    window.wait_for(re.compile(r":e 5-6 loss .*1 of 2 .* 5 \(\d+ s\)"))
    window.send("\x03")
    back(window)
    broker.tell(Progress(request=question.request, asked=2, answered=1, waiting=question.keys[:1]))
    window.send("x")
    broker.wait_for(Input)


def test_a_broker_that_goes_away_meanwhile_gives_a_sentence_and_comes_back(
    broker: FakeBroker, window: test_raw.Window
) -> None:
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


def test_what_the_rank_does_meanwhile_is_there_afterwards(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}where\r")
    shows(window, "where: 3 of 3")
    broker.screen = b"ANOTHER SCREEN"
    broker.draw(b"\x1b[2J\x1b[HANOTHER SCREEN")
    broker.tell(Report(report=make_report(2)))
    repaints = sum(isinstance(item, Repaint) for item in broker.received)
    window.send("q")

    window.wait_for(lambda it: it.row(0) == "ANOTHER SCREEN" and "stopped" in it.row(-1))
    broker.wait_for(Repaint, count=repaints + 1)
    window.send("x")
    assert broker.wait_for(Input).stop == 2


def test_a_window_of_another_size_is_told_and_the_page_follows(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}list\r")
    shows(window, "gpu013:5  stopped")
    window.resize(30, 100)
    window.wait_for(lambda it: BACK in it.row(29))
    window.send("q")

    broker.wait_for(Resize, lambda resize: (resize.rows, resize.columns) == (29, 100))
    back(window)


def test_a_rank_that_goes_on_meanwhile_ends_the_session_and_gives_the_terminal_back(
    broker: FakeBroker, window: test_raw.Window
) -> None:
    before = window.settings()
    window.send(f"{OPEN}where")
    window.wait_for(":where")
    broker.tell(Report(report=RankReport(state=RankState.RUNNING)))

    assert window.exit_status() == 7
    assert window.settings() != before
    assert "gpu013:5 went on" in window.text


@pytest.mark.parametrize("command", ["", "where", "where\r"])
def test_a_window_that_is_closed_meanwhile_is_a_detach(
    command: str, broker: FakeBroker, window: test_raw.Window
) -> None:
    window.send(f"{OPEN}{command}")
    window.wait_for(BACK if command.endswith("\r") else f":{command}")
    window.close_window()

    assert window.exit_status() == 0
    broker.wait_for(Detach)


def test_killing_asks_first(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}kill 6\r")
    window.wait_for("End gpu013:6? [y/N]")
    window.send("n")
    shows(window, "Nothing was done.")
    assert not [item for item in broker.received if isinstance(item, Question)]
    window.send(f"q{OPEN}kill 6\r")
    window.wait_for("End gpu013:6? [y/N]")
    window.send("y")

    assert asked(broker, Action.KILL).keys == (make_rank(6).key,)


def test_a_rank_alone_is_gone_to(broker: FakeBroker, window: test_raw.Window) -> None:
    window.send(f"{OPEN}6\r")

    assert broker.wait_for(Attach, count=2).key == make_rank(6).key
    window.wait_for(lambda it: it.row(-1).startswith(" gpu013:6  stopped"))


def test_a_long_step_beside_held_ranks_says_what_to_do(broker: FakeBroker, window: test_raw.Window) -> None:
    broker.tell(Change(rank=make_rank(6, state=RankState.RUNNING, where=None)))
    broker.tell(Report(report=make_report(state=RankState.RUNNING, stepping=True)))
    broker.tell(Pulse(where=HERE))

    said = "1 held rank"
    window.wait_for(lambda it: said in it.row(-1) and "Ctrl-] : release" in it.row(-1))


def test_a_line_that_is_half_typed_is_there_afterwards(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.reports[RANK.key] = make_pdb_report(PROMPT)
    broker.log = BEFORE
    with test_line_display.Window(broker, environ) as window:
        window.at_prompt()
        window.send("half")
        window.at_prompt("(Pdb) half")
        window.wait_for(lambda it: window.toolbar.endswith("? helps"))
        before = window.text
        window.send(f"{OPEN}e 5-6 loss\r")
        window.wait_for(lambda it: BACK in it.row(-1) and "2 of 2 ranks" in it.row(0))
        window.send("e all rank\r")
        window.wait_for("nothing")
        window.send("\x1b")
        window.wait_for(lambda it: window.text == before)

        window.send(f"{OPEN}where\r")
        window.wait_for(BACK)
        broker.write("said meanwhile\n")
        window.send("q")
        window.at_prompt("(Pdb) half")
        window.send(" way\r")

        assert broker.wait_for(Reply).text == "half way"
        window.wait_for("said meanwhile")
