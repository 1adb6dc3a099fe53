"""The lines of a session in a real terminal on a scripted broker: its command line, and the prompt of pdb."""

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
from tests.e2e.client.test_terminal_raw import Window
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
def window(broker: FakeBroker, environ: dict[str, str]) -> Iterator[Window]:
    with Window(broker, environ, cols=120) as opened:
        opened.opened()
        yield opened


def asked(broker: FakeBroker, action: Action, count: int = 1) -> Question:
    return broker.wait_for(Question, lambda question: question.action is action, count)


def shows(window: Window, *texts: str) -> str:
    """Wait until a page has all these texts; return it."""
    window.wait_for(lambda it: BACK in it.row(-1) and all(text in "\n".join(it.screen) for text in texts))
    return "\n".join(window.screen)


def back(window: Window) -> None:
    """Wait until the debugger and its status line are there as they were."""

    def shown(it: Terminal) -> bool:
        first, *between, last = it.screen
        return first == "PUDB SCREEN" and not any(between) and last.startswith(" gpu013:5  stopped  train.py:41")

    window.wait_for(shown)


def test_keys_typed_ahead_reach_the_command_and_keys_at_its_page_are_dropped(
    broker: FakeBroker, window: Window
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
def test_leaving_the_command_line_sends_no_question(key: str, broker: FakeBroker, window: Window) -> None:
    window.send(OPEN)
    window.wait_for("Esc leaves")
    window.send(key)
    back(window)

    window.send("x")

    broker.wait_for(Input)
    assert broker.typed() == b"x"
    assert not [item for item in broker.received if isinstance(item, Question)]


def test_arrow_keys_recall_earlier_commands(broker: FakeBroker, window: Window) -> None:
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


def test_interrupting_several_ranks_asks_for_confirmation(broker: FakeBroker, window: Window) -> None:
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


def test_pasted_lines_are_one_command(broker: FakeBroker, window: Window) -> None:
    window.send(f"{OPEN}e 5 \x1b[200~max(1,\n2)\x1b[201~\r")
    shows(window, "1 of 1 rank answered")

    assert asked(broker, Action.EVAL).text == "max(1, 2)"


def test_errors_are_shown_on_the_page(broker: FakeBroker, window: Window) -> None:
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


def test_a_lost_broker_is_reported_and_the_session_reconnects(broker: FakeBroker, window: Window) -> None:
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


def test_a_resize_is_reported_and_the_page_follows(broker: FakeBroker, window: Window) -> None:
    window.send(f"{OPEN}list\r")
    shows(window, "gpu013:5  stopped")
    window.resize(30, 100)
    # less sleeps through a signal that comes right before it waits for a key.
    window.send("r")
    window.wait_for(lambda it: BACK in it.row(29))
    window.send("q")

    broker.wait_for(Resize, lambda resize: (resize.rows, resize.columns) == (29, 100))
    back(window)


def test_a_rank_that_continues_ends_the_session_and_restores_the_terminal(broker: FakeBroker, window: Window) -> None:
    before = window.settings()
    window.send(f"{OPEN}where")
    window.wait_for(":where")
    broker.send_all(Report(report=RankReport(state=RankState.RUNNING)))

    assert window.exit_status() == 7
    assert window.settings() != before
    assert "gpu013:5 resumed" in window.text


@pytest.mark.parametrize("command", ["", "where", "where\r"])
def test_closing_the_window_detaches(command: str, broker: FakeBroker, window: Window) -> None:
    window.send(f"{OPEN}{command}")
    window.wait_for(BACK if command.endswith("\r") else f":{command}")
    window.close_window()

    assert window.exit_status() == 0
    broker.wait_for(Detach)


class PdbWindow(Window):
    """A terminal at a rank whose pdb is open."""

    def __enter__(self) -> PdbWindow:
        return self

    def at_prompt(self, line: str = "(Pdb)") -> None:
        """Wait until the prompt's line, just above the toolbar, is ``line``."""
        self.wait_for(lambda it: self.prompt_line == line)

    @property
    def prompt_line(self) -> str:
        rows = [row for row in self.screen if row]
        return rows[-2] if len(rows) > 1 and "gpu013:" in rows[-1] else ""

    @property
    def toolbar(self) -> str:
        return next((row for row in reversed(self.screen) if row), "")

    @property
    def text(self) -> str:
        """The rows that are not empty."""
        return "\n".join(row for row in self.screen if row)


@pytest.fixture
def at_pdb(broker: FakeBroker) -> FakeBroker:
    """The broker, whose rank has pdb open."""
    broker.reports[RANK.key] = make_pdb_report(PROMPT)
    broker.log = BEFORE
    return broker


def test_a_half_typed_line_is_kept(at_pdb: FakeBroker, environ: dict[str, str]) -> None:
    with PdbWindow(at_pdb, environ) as window:
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
        at_pdb.write("printed meanwhile\n")
        window.send("q")
        window.at_prompt("(Pdb) half")
        window.send(" way\r")

        assert at_pdb.wait_for(Reply).text == "half way"
        window.wait_for("printed meanwhile")


def test_output_during_typing_does_not_disturb_the_line(at_pdb: FakeBroker, environ: dict[str, str]) -> None:
    with PdbWindow(at_pdb, environ) as window:
        window.at_prompt()
        window.send("p lo")
        window.at_prompt("(Pdb) p lo")
        at_pdb.send_all(Report(report=make_pdb_report(make_prompt(1, len(BEFORE) + 6), generation=1)))
        at_pdb.write("hello\n")
        window.wait_for("hello\n(Pdb) p lo")
        window.send("ss\r")

        assert at_pdb.wait_for(Reply).text == "p loss"


def test_several_pasted_lines_are_one_reply(at_pdb: FakeBroker, environ: dict[str, str]) -> None:
    with PdbWindow(at_pdb, environ) as window:
        window.at_prompt()
        window.send("\x1b[200~for i in x:\r\n    p(i)\x1b[201~")
        window.wait_for("p(i)")
        assert not any(isinstance(item, Reply) for item in at_pdb.received)
        window.send("\r")

        assert at_pdb.wait_for(Reply).text == "for i in x:\n    p(i)"


def test_the_display_follows_the_engine(at_pdb: FakeBroker, environ: dict[str, str]) -> None:
    with PdbWindow(at_pdb, environ, "5", "--engine", "pdb") as window:
        window.at_prompt()
        assert at_pdb.wait_for(Attach).engine == "pdb"
        at_pdb.reports[RANK.key] = make_report(2, generation=1)
        at_pdb.send_all(Report(report=at_pdb.reports[RANK.key]))
        window.wait_for(lambda it: 1049 in it.virtual.private_modes)
        at_pdb.draw(b"\x1b[HPUDB SCREEN", session=2)
        window.wait_for("PUDB SCREEN")
        window.send("n")
        assert at_pdb.wait_for(Input).data == b"n"
        at_pdb.reports[RANK.key] = make_pdb_report(make_prompt(4), 3, generation=1)
        at_pdb.send_all(Report(report=at_pdb.reports[RANK.key]))
        window.wait_for(lambda it: window.prompt_line == "(Pdb)" and 1049 not in it.virtual.private_modes)
        window.send("c\r")
        assert at_pdb.wait_for(Reply).prompt == 4
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_vi_keys(at_pdb: FakeBroker, environ: dict[str, str]) -> None:
    with PdbWindow(at_pdb, {**environ, "DBG_EDITING": "vi"}, "5") as window:
        window.at_prompt()
        window.send("p yx")
        window.at_prompt("(Pdb) p yx")
        window.send("\x1b")
        window.read_for(0.7)
        window.send("hx\r")

        assert at_pdb.wait_for(Reply).text == "p x"
