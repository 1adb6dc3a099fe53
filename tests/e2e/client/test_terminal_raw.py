"""A real terminal on a scripted broker."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from dbg_wire.codec import Input
from dbg_wire.messages import (
    Attach,
    Change,
    Detach,
    Refusal,
    RefusalCode,
    Repaint,
    Take,
)
from dbg_wire.records.ranks import RankState
from tests.support.terminal import Terminal
from tests.unit.client.fake_broker import FakeBroker, make_rank

RANK = make_rank(5)
VISIBLE_CURSOR_AND_WRAP = {25, 7}


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


def test_the_status_line_and_the_escape_key_are_configurable(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ, "5", "--no-status", "--escape", "^^") as window:
        window.wait_for("PUDB SCREEN")
        assert broker.wait_for(Attach).rows == 24
        window.send(b"\x1dx")
        broker.wait_for(Input, lambda keys: keys.data.endswith(b"x"))
        assert broker.typed() == b"\x1dx"
        window.send(b"\x1ed")
        assert window.exit_status() == 0


@pytest.mark.parametrize("way", ["d", ".", signal.SIGHUP, signal.SIGTERM])
def test_leaving_restores_the_terminal_and_does_not_change_the_rank(
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


def test_a_closed_window_detaches(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.close_window()

        assert window.exit_status() == 0
        broker.wait_for(Detach)


def test_keys_after_a_detach_are_not_sent(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        window.send(b"n\x1ddq\r")
        assert window.exit_status() == 0
        broker.wait_for(Detach)
        assert broker.typed() == b"n"


def test_a_window_that_pauses_reading_is_repainted_when_it_resumes(broker: FakeBroker, environ: dict[str, str]) -> None:
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
        window.wait_for("q goes back")
        broker.draw(b"HIDDEN")
        window.send("c all n\r\x1b[B")
        window.send("q")
        window.wait_for("PUDB SCREEN")

        broker.wait_for(Repaint)
        assert "detach:" not in "\n".join(window.screen)
        window.send("x")
        broker.wait_for(Input)
        assert broker.typed() == b"x"


def test_a_failed_switch_to_another_rank_keeps_the_current_one(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        del broker.ranks[make_rank(6).key]
        window.send("\x1dn")

        window.wait_for(lambda it: "gpu013:6" in it.row(-1))
        assert broker.wait_for(Attach, count=3).key == RANK.key


def test_the_picker_switches_to_another_rank_and_sends_keys_typed_ahead(
    broker: FakeBroker, environ: dict[str, str]
) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.screen = b"OF SIX"
        window.send("\x1dr\x1b[B\rnn")
        window.wait_for(lambda it: it.row(0) == "OF SIX")

        assert broker.wait_for(Attach, count=2).key == make_rank(6).key
        assert broker.wait_for(Input) == Input(1, 1, 2, 0, b"nn")
        window.send("\x1dd")
        assert window.exit_status() == 0


def test_the_terminal_is_restored_if_a_rank_ends_under_the_picker(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        before = window.settings()
        window.opened()
        window.send("\x1dr")
        window.wait_for("Pick ")
        broker.send_all(Change(rank=make_rank(5, state=RankState.EXITED, exit=0)))

        assert window.exit_status() == 8
        assert window.settings() == before
        assert 1049 not in window.virtual.private_modes


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
        broker.send_all(Refusal(code=RefusalCode.FULL, text="64 terminals are on gpu013:5"))

        assert window.exit_status() == 5
        assert "dbg-attach: the broker refused: 64 terminals are on gpu013:5" in window.screen
        assert b"\x1b[?1049h" not in window.output


def test_the_terminal_reconnects_after_a_protocol_violation(broker: FakeBroker, environ: dict[str, str]) -> None:
    with Window(broker, environ) as window:
        window.opened()
        broker.send_all(Take())

        assert broker.wait_for(Attach, count=2).resume == 1
        window.send("\x1dd")
        assert window.exit_status() == 0
