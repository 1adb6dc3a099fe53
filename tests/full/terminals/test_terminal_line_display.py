"""A real terminal on a scripted broker whose rank has pdb open."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import (
    Attach,
    Complete,
    Completions,
    Interrupt,
    Reply,
    Report,
)
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_pdb_report, make_prompt, make_rank, make_report

RANK = make_rank(5, engine="pdb")


BEFORE = b"> train.py(41)step()\n-> loss.backward()\n"


PROMPT = make_prompt(1, len(BEFORE))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(RANK, make_rank(6), reports={RANK.key: make_pdb_report(PROMPT)}) as serving:
        serving.log = BEFORE
        yield serving


class Window(Terminal):
    """A terminal in which ``dbg-attach`` runs against a fake broker."""

    def __init__(
        self, broker: FakeBroker, environ: dict[str, str], *words: str, rows: int = 24, cols: int = 80
    ) -> None:
        command = [sys.executable, "-m", "dbg_client", *(words or ("5",))]
        super().__init__(command, rows, cols, {**environ, **broker.environment})

    def __enter__(self) -> Window:
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


def replied(broker: FakeBroker) -> list[tuple[int, str]]:
    return [(item.prompt, item.text) for item in broker.received if isinstance(item, Reply)]


def test_the_prompt_appears_below_the_output_before_it(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.wait_for("loss.backward()")
        window.at_prompt()

        assert window.screen[:4] == [
            "Attached to gpu013:5 (pdb). Ctrl-] d detaches, Ctrl-] ? helps.",
            "> train.py(41)step()",
            "-> loss.backward()",
            "(Pdb)",
        ]
        window.wait_for(lambda it: window.toolbar.startswith(" gpu013:5  stopped  train.py:41 in step"))
        assert broker.wait_for(Attach).engine is None


def test_a_command_is_sent_once_and_not_shown_twice(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p loss\r")
        assert broker.wait_for(Reply) == Reply(prompt=1, generation=1, text="p loss")
        window.wait_for(lambda it: "Ctrl-C interrupts" in window.toolbar)
        broker.take(PROMPT, "p loss", "0.25\n")
        window.wait_for("0.25\n(Pdb)")

        assert window.text.count("p loss") == 1
        assert replied(broker) == [(1, "p loss")]


def test_output_during_typing_does_not_disturb_the_line(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p lo")
        window.at_prompt("(Pdb) p lo")
        broker.send_all(Report(report=make_pdb_report(make_prompt(1, len(BEFORE) + 6), generation=1)))
        broker.write("hello\n")
        window.wait_for("hello\n(Pdb) p lo")
        window.send("ss\r")

        assert broker.wait_for(Reply).text == "p loss"


def test_ctrl_c_drops_the_line_or_interrupts(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p lo")
        window.at_prompt("(Pdb) p lo")
        window.send("\x03")
        window.at_prompt()
        window.send("long()\r")
        broker.wait_for(Reply)
        assert not any(isinstance(item, Interrupt) for item in broker.received)
        window.wait_for(lambda it: "Ctrl-C interrupts" in window.toolbar)
        window.send("\x03")

        assert broker.wait_for(Interrupt).generation == 1
        assert replied(broker) == [(1, "long()")]


def test_tab_shows_completions_of_the_rank(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p self.lo\t")
        asked = broker.wait_for(Complete)
        assert (asked.line, asked.start, asked.end) == ("p self.lo", 2, 9)
        for number in range(1, 20):  # the answer may be too late on a busy machine
            asked = broker.wait_for(Complete, count=number)
            broker.send_all(Completions(request=asked.request, matches=("self.loss", "self.lot\x1b[2J", "self.losses")))
            window.read_for(0.3)
            if "losses" in "\n".join(window.screen):
                break
            window.send("\t")
        window.wait_for("losses")
        assert "lot" not in "\n".join(window.screen)


def test_several_pasted_lines_are_one_reply(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("\x1b[200~for i in x:\r\n    p(i)\x1b[201~")
        window.wait_for("p(i)")
        assert replied(broker) == []
        window.send("\r")

        assert broker.wait_for(Reply).text == "for i in x:\n    p(i)"


def test_lines_typed_ahead_answer_the_next_prompt(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("n\rn\r")
        broker.wait_for(Reply)
        window.wait_for(lambda it: "1 typed ahead" in window.toolbar)
        following = broker.take(PROMPT, "n", "> train.py(42)step()\n")
        assert broker.wait_for(Reply, count=2) == Reply(prompt=2, generation=1, text="n")
        broker.take(following, "n", "> train.py(43)step()\n")

        window.wait_for("> train.py(42)step()\n(Pdb) n\n> train.py(43)step()\n(Pdb)")


def test_the_display_follows_the_engine(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--engine", "pdb") as window:
        window.at_prompt()
        assert broker.wait_for(Attach).engine == "pdb"
        broker.reports[RANK.key] = make_report(2, generation=1)
        broker.send_all(Report(report=broker.reports[RANK.key]))
        window.wait_for(lambda it: 1049 in it.virtual.private_modes)
        broker.draw(b"\x1b[HPUDB SCREEN", session=2)
        window.wait_for("PUDB SCREEN")
        window.send("n")
        assert broker.wait_for(Input).data == b"n"
        broker.reports[RANK.key] = make_pdb_report(make_prompt(4), 3, generation=1)
        broker.send_all(Report(report=broker.reports[RANK.key]))
        window.wait_for(lambda it: window.prompt_line == "(Pdb)" and 1049 not in it.virtual.private_modes)
        window.send("c\r")
        assert broker.wait_for(Reply).prompt == 4
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_vi_keys(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, {**environ, "DBG_EDITING": "vi"}, "5") as window:
        window.at_prompt()
        window.send("p yx")
        window.at_prompt("(Pdb) p yx")
        window.send("\x1b")
        window.read_for(0.7)
        window.send("hx\r")

        assert broker.wait_for(Reply).text == "p x"
