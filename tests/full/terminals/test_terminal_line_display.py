"""A real terminal on a scripted broker whose rank has pdb open."""

from __future__ import annotations

import re
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_client.attachment.notices import HAS_KEYBOARD, ONLY_WATCH
from dbg_wire.codec import Input
from dbg_wire.messages import (
    Attach,
    Complete,
    Completions,
    Detach,
    Interrupt,
    Mode,
    PromptState,
    RankReport,
    Replay,
    Replied,
    Reply,
    Report,
    Resize,
    Source,
    Take,
)
from dbg_wire.records.ranks import RankState
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import HERE, FakeBroker, make_pdb_report, make_prompt, make_rank, make_report

RANK = make_rank(5, engine="pdb")


BEFORE = b"> train.py(41)step()\n-> loss.backward()\n"


PROMPT = make_prompt(1, len(BEFORE))


SOURCE = Source(where=HERE, first=40, lines=("def f():", "    return 'x'\x1b[2J" + "y" * 200), breakpoints=(40,))


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


def test_the_prompt_appears_below_what_led_there(broker: FakeBroker, environ: dict[str, str]) -> None:
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


def test_leaving_gives_the_terminal_back(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.at_prompt()
        window.send("half a line\x1dd")

        assert window.exit_status() == 0
        broker.wait_for(Detach)
        assert window.settings() == before
        assert "half a line" not in window.text
        assert 2004 not in window.virtual.private_modes
        assert window.screen[3].startswith("Detached from gpu013:5")
        assert replied(broker) == []


def test_the_word_detach_leaves(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("detach\r")

        assert window.exit_status() == 0
        assert replied(broker) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves(broker: FakeBroker, environ: dict[str, str], number: int) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.at_prompt()
        window.signal(number)

        assert window.exit_status() == 0
        assert window.settings() == before


def test_a_closed_window_leaves(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.close_window()
        broker.wait_for(Detach)
        assert window.exit_status() == 0


def test_output_while_one_types_does_not_disturb_the_line(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p lo")
        window.at_prompt("(Pdb) p lo")
        broker.tell(Report(report=make_pdb_report(make_prompt(1, len(BEFORE) + 6), generation=1)))
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


def test_ctrl_c_breaks_into_the_program(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        broker.tell(Report(report=RankReport(state=RankState.RUNNING, breakpoints=1, generation=1)))
        window.wait_for("gpu013:5 is running, 1 breakpoint left.")
        window.wait_for(lambda it: "Ctrl-C " in window.toolbar)
        window.send("\x03")
        broker.wait_for(Interrupt)


def test_ctrl_d_asks_and_an_answer_follows(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("\x04")
        assert broker.wait_for(Reply).text == "EOF"
        broker.report(make_prompt(2, len(BEFORE), text="stay? ", state=PromptState.CONFIRM))
        window.at_prompt("stay?")
        window.send("s\r")
        broker.wait_for(Reply, lambda it: it.text == "s")

        assert replied(broker) == [(1, "EOF"), (2, "s")]


def test_tab_shows_what_the_rank_finds(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p self.lo\t")
        asked = broker.wait_for(Complete)
        assert (asked.line, asked.begin, asked.end) == ("p self.lo", 2, 9)
        for number in range(1, 20):  # the answer may be too late on a busy machine
            asked = broker.wait_for(Complete, count=number)
            broker.tell(Completions(request=asked.request, matches=("self.loss", "self.lot\x1b[2J", "self.losses")))
            window.read_for(0.3)
            if "losses" in "\n".join(window.screen):
                break
            window.send("\t")
        window.wait_for("losses")
        assert "lot" not in "\n".join(window.screen)


def test_a_rank_that_does_not_complete_keeps_nobody_waiting(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p lo\t")
        broker.wait_for(Complete)
        window.send("ss\r")

        assert broker.wait_for(Reply).text == "p loss"


def test_several_pasted_lines_are_one_reply(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("\x1b[200~for i in x:\r\n    p(i)\x1b[201~")
        window.wait_for("p(i)")
        assert replied(broker) == []
        window.send("\r")

        assert broker.wait_for(Reply).text == "for i in x:\n    p(i)"


def test_meta_enter_begins_another_line(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("if x:\x1b\r    y\r")

        assert broker.wait_for(Reply).text == "if x:\n    y"


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


def test_a_watcher_sees_prompts_what_the_driver_types_and_output(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--watch") as window:
        window.at_prompt()
        broker.take(PROMPT, "p loss", "0.25\n")
        window.wait_for("(Pdb) p loss\n0.25\n(Pdb)")
        window.send("x\r")
        window.wait_for(lambda it: ONLY_WATCH in window.toolbar)
        assert window.prompt_line == "(Pdb)"
        window.send("\x1dw")
        broker.wait_for(Take)
        window.wait_for(lambda it: HAS_KEYBOARD in window.toolbar)
        window.send("n\r")

        assert broker.wait_for(Reply).text == "n"


def test_a_line_typed_right_after_a_take_is_replied(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--watch") as window:
        window.at_prompt()
        window.send("\x1dwn\r")

        assert broker.wait_for(Reply).text == "n"
        broker.take(PROMPT, "n", "> train.py(42)step()\n")
        window.wait_for("(Pdb) n\n> train.py(42)step()\n(Pdb)")


def test_what_a_rank_prints_acts_on_no_terminal(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        broker.write("\x1b[2J\x1b]0;owned\x07\x1b[31mred\x1b[0m \x9b6n\x1b[6n\x1b[?1049h 5 %\r50 %\r100 %\n")
        window.wait_for(lambda it: "100 %" in it.screen)

        assert "> train.py(41)step()" in window.text
        assert 1049 not in window.virtual.private_modes
        assert b"owned" not in window.output


def test_the_source_follows_every_stop_where_there_is_room(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, rows=40) as window:
        window.at_prompt()
        broker.tell(SOURCE)
        window.wait_for("41  ->     return 'x'\\x1b[2Jyyy")

        assert "40 B   def f():" in window.text
        assert sum("yyyy" in row for row in window.screen) == 1  # cut, not wrapped
        window.send("sticky\r")
        window.wait_for("sticky is off")
        broker.tell(SOURCE)
        broker.write("later\n")
        window.wait_for("later")
        assert window.text.count("def f()") == 1
        assert replied(broker) == []


def test_the_source_stays_away_from_a_small_terminal_until_asked_for(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        broker.tell(SOURCE)
        broker.write("later\n")
        window.wait_for("later")
        assert "def f()" not in window.text
        window.send("sticky\r")
        window.wait_for("def f()")


def test_a_reply_that_was_under_way_is_sent_again(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p loss\r")
        broker.wait_for(Reply)
        broker.reports[RANK.key] = make_pdb_report(PROMPT, generation=1)
        broker.cut()

        assert broker.wait_for(Reply, count=2) == Reply(prompt=1, generation=1, text="p loss")
        broker.take(PROMPT, "p loss", "0.25\n")
        window.wait_for("0.25\n(Pdb)")
        assert window.text.count("p loss") == 1


def test_a_reply_that_was_applied_meanwhile_is_not_sent_again(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p loss\r")
        broker.wait_for(Reply)
        broker.stop()
        with FakeBroker(RANK, port=broker.port) as again:
            again.log = BEFORE + b"(Pdb) p loss\n0.25\n"
            prompt = make_prompt(2, len(again.log))
            again.reports[RANK.key] = make_pdb_report(prompt, generation=1)
            again.tell(Report(report=again.reports[RANK.key]))
            window.wait_for("0.25\n(Pdb)")

            assert window.text.count("p loss") == 1
            assert replied(again) == []
            assert again.wait_for(Replay).offset == len(BEFORE)


def test_a_reply_is_given_up_when_somebody_else_has_the_keyboard(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p loss\r")
        broker.wait_for(Reply)
        broker.tell(broker.seat(RANK.key, generation=None, driver="bob@x"))
        # The seat alone does not tell whether the rank has the reply; its report for the next driver does.
        broker.tell(Report(report=make_pdb_report(PROMPT, generation=2)))
        window.wait_for("discarded: 'p loss' (")

        assert replied(broker) == [(1, "p loss")]


def test_a_refused_reply_is_shown(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p loss\r")
        broker.wait_for(Reply)
        broker.tell(Replied(prompt=1, taken=False, reason="the stop ended"))
        window.wait_for("discarded: 'p loss' (")


def test_what_was_missed_is_asked_for(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        broker.write("one\ntwo\nthree\n", skip=4)

        window.wait_for("one\ntwo\nthree\n(Pdb)")
        assert broker.wait_for(Replay, lambda it: it.offset == len(BEFORE))
        assert window.text.count("three") == 1


def test_what_was_cut_is_said(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        broker.log_start = len(BEFORE) + 12_345
        broker.write("x" * 12_345 + "kept\nlive\n", skip=12_350)

        window.wait_for(re.compile(r"12,345 .*\nkept\nlive\n\(Pdb\)"))


def test_ten_megabytes_of_output_arrive_whole(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        for _ in range(160):
            broker.write(("x" * 1023 + "\n") * 64)
        broker.write("the end\n")
        window.skim(b"the end", seconds(60))

        assert window.output.count(b"x" * 1023) == 160 * 64


def test_the_display_follows_the_engine(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--engine", "pdb") as window:
        window.at_prompt()
        assert broker.wait_for(Attach).engine == "pdb"
        broker.reports[RANK.key] = make_report(2, generation=1)
        broker.tell(Report(report=broker.reports[RANK.key]))
        window.wait_for(lambda it: 1049 in it.virtual.private_modes)
        broker.draw(b"\x1b[HPUDB SCREEN", session=2)
        window.wait_for("PUDB SCREEN")
        window.send("n")
        assert broker.wait_for(Input).data == b"n"
        broker.reports[RANK.key] = make_pdb_report(make_prompt(4), 3, generation=1)
        broker.tell(Report(report=broker.reports[RANK.key]))
        window.wait_for(lambda it: window.prompt_line == "(Pdb)" and 1049 not in it.virtual.private_modes)
        window.send("c\r")
        assert broker.wait_for(Reply).prompt == 4
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_the_terminals_default_engine_gives_way_to_the_ranks_own(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.ranks[RANK.key] = make_rank(5)
    broker.reports[RANK.key] = make_report(1, session=None)
    environ["DBG_ENGINE"] = "pdb"
    with Window(broker, environ) as window:
        asked = broker.wait_for(Attach)
        assert (asked.engine, asked.fallback_engine) == (None, "pdb")
        broker.report(PROMPT)
        window.at_prompt()
    with Window(broker, environ, "6") as window:
        broker.ranks[make_rank(6).key] = make_rank(6, engine="pudb")
        window.wait_for("PUDB SCREEN")


def test_changing_the_engine_under_somebody_needs_take(environ: dict[str, str]) -> None:
    with (
        FakeBroker(RANK, reports={RANK.key: make_pdb_report(make_prompt())}, driver="bob@x") as broker,
        Window(broker, environ, "5", "--engine", "pudb", cols=120) as window,
    ):
        window.wait_for(re.compile("bob@x .*--take"))


def test_pdbrc_and_a_file_of_commands_go_first(broker: FakeBroker, environ: dict[str, str], tmp_path: Path) -> None:
    (Path(environ["HOME"]) / ".pdbrc").write_text("# mine\nalias nl n;;l\n\n")
    commands = tmp_path / "commands"
    commands.write_text("b 12\n")
    with Window(broker, environ, "5", "-x", str(commands)) as window:
        broker.wait_for(Reply)
        following = broker.take(PROMPT, "alias nl n;;l")
        broker.wait_for(Reply, count=2)
        broker.take(following, "b 12", "Breakpoint 1\n")
        window.wait_for("(Pdb) alias nl n;;l\n(Pdb) b 12\nBreakpoint 1\n(Pdb)")

        assert replied(broker) == [(1, "alias nl n;;l"), (2, "b 12")]


def test_pdbrc_can_be_left_out(broker: FakeBroker, environ: dict[str, str]) -> None:
    (Path(environ["HOME"]) / ".pdbrc").write_text("b 12\n")
    with Window(broker, environ, "5", "--no-rc") as window:
        window.at_prompt()
        window.send("n\r")

        assert broker.wait_for(Reply).text == "n"


def test_history_lasts_and_is_private(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p loss\r")
        broker.wait_for(Reply)
        following = broker.take(PROMPT, "p loss")
        window.at_prompt()
        broker.report(make_prompt(3, following.offset, text="password: ", state=PromptState.INPUT))
        window.at_prompt("password:")
        window.send("secret\r")
        broker.wait_for(Reply, lambda it: it.text == "secret")
        window.send("\x1dd")
        assert window.exit_status() == 0
    broker.report(make_prompt(4, len(broker.log)))
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("\x1b[A")
        window.at_prompt("(Pdb) p loss")
    (history,) = Path(environ["HOME"]).rglob("pdb_history")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "secret" not in history.read_text()


def test_a_smaller_window_is_told_to_the_rank(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.resize(30, 60)

        assert broker.wait_for(Resize, lambda it: it.columns == 60).rows == 30


def test_the_picker_comes_and_goes(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.at_prompt()
        window.send("p lo\x1dr")
        window.wait_for("Pick ")
        broker.write("meanwhile\n")
        window.send("q")
        window.at_prompt("(Pdb) p lo")
        assert "meanwhile" in window.text
        window.send("\x1dr")
        window.wait_for("Pick ")
        window.send("j\r")
        window.wait_for("PUDB SCREEN")
        assert broker.wait_for(Attach, count=2).mode is Mode.DRIVE


def test_help_and_an_unknown_key(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, rows=40) as window:
        window.at_prompt()
        window.send("\x1dx")
        window.wait_for(re.compile("sticky .* on$", re.MULTILINE))
        window.send("sticky\r\x1dx")
        window.wait_for(re.compile("sticky .* off$", re.MULTILINE))
        window.at_prompt()


def test_only_a_job_of_a_run_can_be_run_again(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, cols=120) as window:
        window.at_prompt()
        window.send("p lo\x1dR")
        window.wait_for(lambda it: "`dbg-broker run`" in it.text)  # type: ignore[attr-defined]
        window.at_prompt("(Pdb) p lo")


def test_the_escape_key_is_the_users(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--escape", "^\\") as window:
        window.at_prompt()
        window.send("\x1c")
        window.wait_for(lambda it: "d detach" in window.toolbar)
        window.send("d")

        assert window.exit_status() == 0


def test_the_end_of_the_stop_ends_the_session_with_7(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.at_prompt()
        window.send("c\r")
        broker.wait_for(Reply)
        broker.tell(Report(report=RankReport(state=RankState.RUNNING, generation=1)))

        assert window.exit_status() == 7
        assert window.settings() == before
        assert "(Pdb) c\ngpu013:5 went on" in window.text


def test_vi_keys(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--vi") as window:
        window.at_prompt()
        window.send("p yx")
        window.at_prompt("(Pdb) p yx")
        window.send("\x1b")
        window.read_for(0.7)
        window.send("hx\r")

        assert broker.wait_for(Reply).text == "p x"
