"""The tests' terminal is real: echo, raw mode, size, signals, hang-up; and its screen is that of an xterm."""

from __future__ import annotations

import re
import signal
import sys
import termios
from pathlib import Path

import pytest

from tests.support.screen import VirtualScreen
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

LOCAL_FLAGS = 3
RAW_AND_GONE = "import tty; tty.setraw(0); print('raw', flush=True); input()"


def python(source: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", source]


def test_keys_reach_the_program_and_its_output_the_screen() -> None:
    with Terminal(["cat"]) as terminal:
        terminal.send("hello\r")
        terminal.wait_for(re.compile(r"\Ahello\nhello\n"))
        terminal.send(b"\x04")
        assert terminal.exit_status() == 0


def test_end_is_noticed_and_reported_with_the_screen() -> None:
    with Terminal(["sh", "-c", "echo last words; exit 5"]) as terminal:
        with pytest.raises(AssertionError, match=r"never showed 'more'; .* status 5\n\+[^|]*\|last words"):
            terminal.wait_for("more", seconds(60))
        assert terminal.exit_status() == 5


def test_a_terminal_left_raw_looks_raw_after_the_program_has_ended() -> None:
    with Terminal(["sleep", "1000"]) as untouched:
        # The settings of another terminal, because this test's program may set its own raw before a first look.
        before = untouched.settings()
    with Terminal(python(RAW_AND_GONE)) as terminal:
        terminal.wait_for("raw")
        terminal.kill()
        assert terminal.exit_status() == -signal.SIGKILL
        after = terminal.settings()
        assert after != before
        assert isinstance(flags := after[LOCAL_FLAGS], int)
        assert not flags & termios.ECHO


def test_a_program_that_survives_the_hangup_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.terminal.GRACE", 0.2)
    with Terminal(["sh", "-c", "trap '' HUP; echo up; exec sleep 1000"]) as terminal:
        terminal.wait_for("up")
        pid = terminal.pid
    assert pid is not None
    assert not Path(f"/proc/{pid}/cwd").exists()


def test_a_program_that_never_stops_writing_does_not_stop_the_clock() -> None:
    with Terminal(["yes"]) as terminal, pytest.raises(AssertionError, match="never showed 'no'"):
        terminal.wait_for("no", 0.1)


def test_all_output_is_read_before_the_exit_status_is_given() -> None:
    with Terminal(python("print('x' * 300_000 + 'end')")) as terminal:
        assert terminal.exit_status() == 0
        assert b"xend\r\n" in terminal.output


class TestScreen:
    """Sequences that pyte alone gets wrong, and the modes that a test asks about."""

    @pytest.mark.parametrize(
        "sequence",
        [
            b"\x1b[>4;1m",
            b"\x1bP+q544e\x1b\\",
            b"\x1b]11;?\x1b\\",
            b"\x1b[6n",
        ],
    )
    def test_queries_and_private_sequences_leave_no_trace(self, sequence: bytes) -> None:
        screen = VirtualScreen(3, 20)
        for byte in b"a" + sequence + b"b":
            screen.feed(bytes([byte]))
        assert screen.rows[0] == "ab"
        assert screen.refused == []

    def test_a_sequence_the_emulation_stumbles_over_is_put_aside(self) -> None:
        screen = VirtualScreen(3, 20)
        screen.feed(b"a\x1b[1;2;3db")
        assert screen.rows[0] == "ab"
        assert screen.refused == [b"\x1b[1;2;3d"]

    @pytest.mark.parametrize(
        "cut",
        [b"\x1b[38;5\x18", b"\x1b[38;5\x1b[1m", b"\x1b]0;title\x1a"],
    )
    def test_a_sequence_cut_short_hides_nothing_that_follows(self, cut: bytes) -> None:
        screen = VirtualScreen(1, 20)
        for byte in b"a" + cut + b"b":
            screen.feed(bytes([byte]))
        assert screen.rows[0] == "ab"
        assert screen.refused == []

    def test_leaving_the_alternate_screen_brings_back_what_was_there(self) -> None:
        screen = VirtualScreen(3, 20)
        screen.feed(b"prompt $ \x1b[?1049h\x1b[H\x1b[?1000;2004hfull screen")
        assert screen.rows == ["full screen", "", ""]
        assert screen.private_modes >= {1049, 1000, 2004}
        screen.feed(b"\x1b[?1000l\x1b[?2004l\x1b[?1049l")
        assert screen.rows == ["prompt $", "", ""]
        assert screen.cursor == (0, 9)
        assert not screen.private_modes & {1049, 1000, 2004}

    def test_256_colours_and_the_hidden_cursor_show(self) -> None:
        screen = VirtualScreen(1, 4)
        screen.feed(b"\x1b[38;5;208mab\x1b[0;31mc\x1b[?25l")
        assert [foreground for foreground, _ in screen.colours(0)] == ["ff8700", "ff8700", "red", "default"]
        assert screen.cursor_hidden
