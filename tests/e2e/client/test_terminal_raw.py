"""A real terminal on a scripted broker."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator

import pytest

from dbg_client.attachment.attachment import LOST_SECONDS
from dbg_client.attachment.notices import HAS_KEYBOARD, ONLY_WATCH
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Action,
    Applied,
    Attach,
    Change,
    Detach,
    Discarded,
    Mode,
    Pulse,
    Question,
    RankReport,
    Refusal,
    RefusalCode,
    Repaint,
    Report,
    Resize,
    Subscribe,
    Take,
)
from dbg_wire.records.ranks import Place, RankState
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.unit.client.core.test_link import Listener, certified
from tests.unit.client.fake_broker import FakeBroker, make_rank, make_report

RANK = make_rank(5)


VISIBLE_CURSOR_AND_WRAP = {25, 7}


LEFT = RankReport(state=RankState.RUNNING, breakpoints=1)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(RANK, make_rank(6)) as serving:
        yield serving


class Window(Terminal):
    """A terminal in which ``dbg-attach`` runs against a fake broker."""

    def __init__(
        self,
        broker: FakeBroker,
        environ: dict[str, str],
        *words: str,
        rows: int = 24,
        cols: int = 80,
        more: dict[str, str] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "dbg_client", *(words or ("5",))]
        super().__init__(command, rows, cols, {**environ, **broker.environment, **(more or {})})

    def __enter__(self) -> Window:
        return self

    def opened(self) -> None:
        self.wait_for("PUDB SCREEN")
        self.wait_for(lambda it: "gpu013:5" in it.row(-1))

    @property
    def text(self) -> str:
        """The screen as one line, so that it doesn't matter where the terminal broke a sentence."""
        return "".join(row.ljust(80) for row in self.screen)


def silent_for(window: Terminal) -> int:
    """Return the seconds of silence that the status line tells; -1 if it tells none."""
    found = re.search(r"silent for (\d+) s", window.row(-1))
    return int(found[1]) if found else -1


def test_the_session_opens_on_the_whole_screen_but_the_last_row(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, rows=30, cols=100) as window:
        window.opened()
        attach = broker.wait_for(Attach)

        assert (attach.key, attach.mode) == (RANK.key, Mode.DRIVE)
        assert (attach.rows, attach.columns, attach.colors) == (29, 100, 256)
        assert b"Attached to gpu013:5 (PuDB). Ctrl-] d detaches, Ctrl-] ? helps." in window.output
        assert window.row(0) == "PUDB SCREEN"
        assert window.row(-1).startswith(" gpu013:5  stopped  train.py:41 in step")
        assert 1049 in window.virtual.private_modes


def test_without_a_status_line_the_rank_has_every_row(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--no-status") as window:
        window.wait_for("PUDB SCREEN")

        assert broker.wait_for(Attach).rows == 24
        assert window.row(-1) == ""


@pytest.mark.parametrize("way", ["d", ".", signal.SIGHUP, signal.SIGTERM])
def test_leaving_restores_the_terminal_and_leaves_the_rank(
    way: str | signal.Signals, broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.opened()
        broker.draw(b"\x1b[?1000h\x1b[?2004h\x1b[?1h\x1b[31mred")
        window.wait_for("red")
        assert window.settings() != before

        if isinstance(way, str):
            window.send(f"\x1d{way}")
        else:
            window.signal(way)

        assert window.exit_status() == 0
        assert window.settings() == before
        assert window.virtual.private_modes <= VISIBLE_CURSOR_AND_WRAP
        assert "PUDB SCREEN" not in "\n".join(window.screen)
        assert "Detached from gpu013:5" in "\n".join(window.screen)
        broker.wait_for(Detach)


def test_a_closed_window_is_a_detach(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.close_window()

        assert window.exit_status() == 0
        broker.wait_for(Detach)


def test_ctrl_c_is_a_key_like_any_other(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send(b"\x03\x1a\x1c\x11n")
        broker.wait_for(Input, lambda keys: keys.data.endswith(b"n"))

        assert broker.typed() == b"\x03\x1a\x1c\x11n"


def test_another_escape_key(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--escape", "^^") as window:
        window.opened()
        assert b"Ctrl-^ d detaches" in window.output
        window.send(b"\x1dx")
        broker.wait_for(Input, lambda keys: keys.data.endswith(b"x"))
        assert broker.typed() == b"\x1dx"
        window.send(b"\x1ed")
        assert window.exit_status() == 0


def test_the_prefix_twice_is_the_key_itself(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send(b"\x1d]")
        assert broker.wait_for(Input).data == b"\x1d"


def test_keys_behind_a_detach_are_not_sent(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send(b"n\x1ddq\r")
        assert window.exit_status() == 0
        broker.wait_for(Detach)
        assert broker.typed() == b"n"


def test_nothing_of_the_status_line_leaks_into_the_screen(broker: FakeBroker, environ: dict[str, str]) -> None:
    rows = [f"row {number} " + "x" * 60 for number in range(23)]
    drawing = b"".join(b"\x1b[%d;1H%b" % (number + 1, row.encode()) for number, row in enumerate(rows))
    with Window(broker, environ) as window:
        window.opened()
        for start in range(0, len(drawing), 7):
            broker.draw(drawing[start : start + 7])

        window.wait_for(lambda it: it.screen[:23] == rows and it.row(-1).startswith(" gpu013:5  stopped"))
        assert window.virtual.refused == []


def test_what_a_rank_says_can_not_act_on_the_terminal(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        mark = len(window.output)
        broker.draw(b"\x1b[6n\x1b]52;c;eA==\x07\x1b]2;evil\x07\x1bcEND")
        window.wait_for("END")

        for query in (b"\x1b[6n", b"]52;", b"evil", b"\x1bc"):
            assert query not in window.output[mark:]


def test_a_resize_is_told_at_once(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.resize(40, 120)

        assert broker.wait_for(Resize) == Resize(rows=39, columns=120)
        window.wait_for(lambda it: it.row(-1).startswith(" gpu013:5"))


def test_a_hole_in_the_output_is_repainted(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.screen = b"\x1b[H\x1b[2JWHOLE AGAIN"
        broker.draw(b"\x1b[1;1H\x1b[7mJUNK", skip=1000)
        broker.wait_for(Repaint)

        window.wait_for("WHOLE AGAIN")
        assert "JUNK" not in "\n".join(window.screen)


def test_a_window_that_does_not_read_is_repainted_when_it_does(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.screen = b"WHOLE AGAIN"
        for _ in range(20):
            broker.draw(b"\x1b[H\x1b[31m" + b"x" * 60_000)
        window.send("n")
        broker.wait_for(Input)  # the keyboard works all the while

        window.wait_for("WHOLE AGAIN")
        broker.wait_for(Repaint)
        window.wait_for(lambda it: it.row(-1).startswith(" gpu013:5"))


def test_help_covers_the_screen_and_drops_keys_until_q(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send("\x1d?nnn")
        window.wait_for(" detach")
        broker.draw(b"HIDDEN")
        window.send("c all n\r\x1b[B")
        window.wait_for("nothing")
        window.send("\x1b")
        window.wait_for("PUDB SCREEN")

        broker.wait_for(Repaint)
        assert "detach:" not in "\n".join(window.screen)
        window.send("x")
        broker.wait_for(Input)
        assert broker.typed() == b"x"


def test_the_prefix_works_on_the_help_page(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send("\x1d?")
        window.wait_for("q ")
        window.send("\x1dn")
        window.wait_for(lambda it: it.row(-1).startswith(" gpu013:6"))
        window.send("\x1d?")
        window.wait_for("q ")
        window.send("\x1dd")

        assert window.exit_status() == 0
        assert broker.typed() == b""


def test_a_rank_that_goes_on_ends_the_session_with_7(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.tell(Report(report=RankReport(state=RankState.RUNNING)))

        assert window.exit_status() == 7
        assert "gpu013:5 went on" in "\n".join(window.screen)


def test_a_rank_with_breakpoints_left_keeps_the_terminal(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.tell(Report(report=LEFT))
        window.wait_for("gpu013:5 is running, 1 breakpoint left")
        window.wait_for(lambda it: "running" in it.row(-1) and "PUDB" not in "\n".join(it.screen))

        broker.tell(Report(report=make_report(2)))
        broker.draw(b"\x1b[HNEXT STOP", session=2)
        window.wait_for(lambda it: it.row(0) == "NEXT STOP" and "breakpoint left" not in "\n".join(it.screen))


def test_a_long_step_says_where_the_rank_is(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.tell(Report(report=make_report(state=RankState.RUNNING, stepping=True)))
        broker.tell(Pulse(where=Place(file="/x/data.py", line=61, function="next_batch")))

        window.wait_for(lambda it: "running for" in it.row(-1) and "data.py:61 in next_batch" in it.row(-1))


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (1, "gpu013:5 has exited with status 1"),
        (-9, "gpu013:5 was killed by SIGKILL"),
        (None, "gpu013:5 has exited"),
    ],
)
def test_a_rank_that_exits_ends_the_session_with_8(
    status: int | None, sentence: str, broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.opened()
        broker.tell(Change(rank=make_rank(5, state=RankState.EXITED, exit=status)))

        assert window.exit_status() == 8
        assert f"dbg-attach: {sentence}" in window.screen
        assert window.settings() == before


def test_a_silent_rank_keeps_its_terminal_and_says_since_when(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.tell(Change(rank=make_rank(5, state=RankState.UNRESPONSIVE)))
        window.wait_for(lambda it: silent_for(it) >= 0)
        first = silent_for(window)
        window.wait_for(lambda it: silent_for(it) > first)

        broker.tell(Change(rank=RANK))
        window.wait_for(lambda it: "stopped" in it.row(-1))


def test_a_lost_rank_that_stays_away_ends_the_session_with_8(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.tell(Change(rank=make_rank(5, state=RankState.LOST)))
        window.wait_for(lambda it: "lost for" in it.row(-1))

        assert window.exit_status(LOST_SECONDS + seconds(10)) == 8
        assert "gpu013:5" in window.text
        assert "dbg-attach wait gpu013:5" in window.text


def test_someone_else_types_already(environ: dict[str, str]) -> None:
    with FakeBroker(RANK, driver="bob@login2") as broker, Window(broker, environ) as window:
        window.opened()
        window.wait_for(lambda it: "bob@login2 types" in it.row(-1))
        window.send("n")
        window.wait_for(lambda it: ONLY_WATCH in it.row(-1))
        assert broker.typed() == b""

        window.send("\x1dw")
        broker.wait_for(Take)
        window.wait_for(lambda it: HAS_KEYBOARD in it.row(-1))
        window.send("n")
        assert broker.wait_for(Input).data == b"n"


def test_a_key_typed_right_after_a_take_arrives(environ: dict[str, str]) -> None:
    with FakeBroker(RANK, driver="bob@login2") as broker, Window(broker, environ) as window:
        window.opened()
        window.send("\x1dwn")

        assert broker.wait_for(Input).data == b"n"


def test_watching_is_asked_for(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "--watch", "5") as window:
        window.opened()

        assert broker.wait_for(Attach).mode is Mode.WATCH
        window.wait_for(lambda it: "watching" in it.row(-1))


def test_the_keyboard_is_taken_away(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "--take", "5") as window:
        window.opened()
        assert broker.wait_for(Attach).mode is Mode.TAKE
        broker.tell(broker.seat(RANK.key, generation=None, driver="bob@login2"))

        window.wait_for(lambda it: "bob@login2 took" in it.row(-1))


def test_next_and_previous_go_through_the_stopped_ranks(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.screen = b"OF SIX"
        window.send("\x1dn")
        window.wait_for(lambda it: it.row(0) == "OF SIX" and it.row(-1).startswith(" gpu013:6"))
        broker.screen = b"OF FIVE"
        window.send("\x1dp")
        window.wait_for(lambda it: it.row(0) == "OF FIVE" and it.row(-1).startswith(" gpu013:5"))

        assert [item.key for item in broker.received if isinstance(item, Attach)] == [
            RANK.key,
            make_rank(6).key,
            RANK.key,
        ]


def test_a_rank_that_can_not_be_gone_to_leaves_one_where_one_was(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        del broker.ranks[make_rank(6).key]
        window.send("\x1dn")

        window.wait_for(lambda it: "gpu013:6" in it.row(-1))
        assert broker.wait_for(Attach, count=3).key == RANK.key


def test_only_a_job_of_a_run_can_be_run_again(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send("\x1dRy")

        window.wait_for(lambda it: "`dbg-broker run`" in it.row(-1))
        assert broker.wait_for(Input).data == b"y"
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_the_picker_goes_to_another_rank_and_takes_what_was_typed_ahead(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.screen = b"OF SIX"
        window.send("\x1drj\rnn")
        window.wait_for(lambda it: it.row(0) == "OF SIX")

        assert broker.wait_for(Attach, count=2).key == make_rank(6).key
        assert broker.wait_for(Input) == Input(1, 1, 2, 0, b"nn")
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_who_breaks_in_by_the_picker_of_a_session_types_there(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.ranks[make_rank(6).key] = make_rank(6, state=RankState.RUNNING, where=None, reason=None)
    with Window(broker, environ) as window:
        window.opened()
        broker.screen = b"OF SIX"
        window.send("\x1dr")
        window.wait_for("gpu013:6  running")
        window.send("j\ry")
        broker.wait_for(Question, lambda question: question.action is Action.INTERRUPT)
        broker.tell(Change(rank=make_rank(6)))
        window.wait_for(lambda it: it.row(0) == "OF SIX")

        attached = broker.wait_for(Attach, count=2)
        assert (attached.key, attached.mode) == (make_rank(6).key, Mode.TAKE)
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_a_debugger_that_takes_long_to_open_is_announced(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.reports[RANK.key] = make_report(session=None)
    broker.screen = b""
    with Window(broker, environ) as window:
        window.wait_for("gpu013:5 is stopped.")
        window.wait_for(" opens")
        # The output begins anew, so the terminal asks for the whole screen, and is answered by this.
        broker.screen = b"PUDB SCREEN"
        broker.tell(Report(report=make_report()))
        broker.tell(Output(1, 0, b"PUDB SCREEN"))
        window.wait_for(lambda it: it.row(0) == "PUDB SCREEN" and " opens" not in "\n".join(it.screen))
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_leaving_the_picker_comes_back_to_the_session(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.opened()
        window.send("\x1dr")
        window.wait_for("Pick ")
        window.resize(30, 90)
        window.send("q")
        window.wait_for("PUDB SCREEN")
        assert broker.wait_for(Resize, lambda it: it.rows == 29).columns == 90
        window.send("n")
        assert broker.wait_for(Input).data == b"n"
        window.send("\x1dd")
        assert window.exit_status() == 0
        assert window.settings() == before


def test_a_rank_that_ends_under_the_picker_restores_the_terminal(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.opened()
        window.send("\x1dr")
        window.wait_for("Pick ")
        broker.tell(Change(rank=make_rank(5, state=RankState.EXITED, exit=0)))

        assert window.exit_status() == 8
        assert window.settings() == before
        assert 1049 not in window.virtual.private_modes


def test_a_broken_line_keeps_the_terminal_and_the_keys(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send("a")
        broker.wait_for(Input)
        broker.tell(Applied(generation=1, offset=1))
        broker.screen = b"SAME FRAME"
        broker.reports[RANK.key] = make_report(generation=1, applied=1)
        broker.stop()
        window.wait_for(lambda it: "broker gone" in it.row(-1))
        window.send("bc")
        window.read_for(0.1)

        with FakeBroker(RANK, reports=broker.reports, port=broker.port) as again:
            again.screen = b"SAME FRAME"
            window.wait_for("SAME FRAME")
            again.wait_for(Input)
            attach = again.wait_for(Attach)

            assert (attach.resume, attach.mode) == (1, Mode.DRIVE)
            assert again.typed() == b"bc"
            assert again.wait_for(Input).offset == 1


def test_keys_for_a_stop_that_ended_meanwhile_are_discarded_and_shown(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.stop()
        window.wait_for(lambda it: "broker gone" in it.row(-1))
        window.send("nn")
        window.read_for(0.1)

        with FakeBroker(RANK, reports={RANK.key: make_report(2, generation=1)}, port=broker.port) as again:
            window.wait_for(lambda it: "discarded: 'nn'" in it.row(-1))
            assert again.typed() == b""


def test_a_discard_by_the_rank_is_shown(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send("cnn")
        broker.wait_for(Input, lambda keys: keys.data.endswith(b"n"))
        broker.tell(Discarded(generation=1, offset=3, count=2, reason="the stop ended"))

        window.wait_for(lambda it: "discarded: 'nn' (" in it.row(-1))


def test_the_terminal_waits_until_the_rank_is_back_at_the_new_broker(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.stop()
        with FakeBroker(port=broker.port) as again:
            again.wait_for(Subscribe)
            window.wait_for(lambda it: "away" in it.row(-1))
            again.ranks[RANK.key] = RANK
            again.screen = b"BACK AGAIN"
            again.tell(Change(rank=RANK))

            window.wait_for("BACK AGAIN")


def test_an_impostor_in_the_brokers_place_gets_nothing_and_is_named(environ: dict[str, str]) -> None:
    context, pinned = certified()
    with FakeBroker(RANK, tls=context) as broker:
        address = {"DBG_BROKER": f"wss://127.0.0.1:{broker.port}#{pinned}"}
        with Window(broker, environ, more=address, cols=160) as window:
            window.opened()
            broker.stop()
            other_context, _ = certified()
            impostor = Listener(tls=other_context, port=broker.port)
            window.wait_for(lambda it: "pinned" in it.row(-1))
            window.send("n")
            assert impostor.ended.wait(seconds(10))
            assert impostor.received == b""
            with FakeBroker(RANK, tls=context, port=broker.port) as again:
                assert again.wait_for(Input).data == b"n"


def test_detaching_works_while_the_broker_is_gone(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.opened()
        broker.stop()
        window.wait_for(lambda it: "broker gone" in it.row(-1))
        window.send("\x1dd")

        assert window.exit_status() == 0
        assert window.settings() == before


def test_a_refused_seat_is_an_error_before_the_screen_is_touched(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.silent.add(Attach)
    with Window(broker, environ) as window:
        broker.wait_for(Attach)
        broker.tell(Refusal(code=RefusalCode.FULL, text="64 terminals are on gpu013:5"))

        assert window.exit_status() == 5
        assert "dbg-attach: the broker refused: 64 terminals are on gpu013:5" in window.screen
        assert b"\x1b[?1049h" not in window.output


def test_ctrl_c_before_the_seat_is_an_interrupt(broker: FakeBroker, environ: dict[str, str]) -> None:
    broker.silent.add(Attach)
    with Window(broker, environ) as window:
        broker.wait_for(Attach)
        window.send("\x03")

        assert window.exit_status() == 130


def test_a_message_that_breaks_the_protocol_breaks_the_line_and_not_the_terminal(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.tell(Take())

        assert broker.wait_for(Attach, count=2).resume == 1
        window.send("\x1dd")
        assert window.exit_status() == 0
