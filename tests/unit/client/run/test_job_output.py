"""What a job prints, shown on a terminal or passed on through a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import termios
import threading
import tty
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from dbg_client.run import job_output
from dbg_client.run.job_output import END_SHOWN, MAX_BEHIND, JobOutput
from dbg_client.terminal.screen import CALM
from tests.conftest import Approved
from tests.support.screen import VirtualScreen
from tests.support.time_unit import seconds


class Reader:
    """The stdout of this process, and a thread that reads what is written to it."""

    def __init__(self, read_end: int, write_end: int) -> None:
        self.data = b""
        self._read_end = read_end
        self._stdout = os.fdopen(write_end, "w")
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._read_end, 65536):
                with self._more:
                    self.data += data
                    self._more.notify()

    @property
    def stdout(self) -> TextIO:
        return self._stdout

    async def has(self, text: bytes) -> None:
        """Wait until the text was shown, while the loop goes on."""

        def wait() -> bool:
            with self._more:
                return self._more.wait_for(lambda: text in self.data, seconds(20))

        assert await asyncio.to_thread(wait), self.data

    async def has_all(self, end: bytes) -> bytes:
        """Wait until ``end`` was shown, and return all that was shown."""
        await self.has(end)
        return self.data

    def ended(self) -> bytes:
        """Close stdout, and return all that was shown."""
        self._stdout.close()
        self._thread.join()
        return self.data

    def close(self) -> None:
        self.ended()
        os.close(self._read_end)


def _stand_in(monkeypatch: pytest.MonkeyPatch, stdout: TextIO) -> None:
    # The module's ``sys`` is replaced: pytest changes sys.stdout itself between a fixture and its test.
    monkeypatch.setattr(job_output, "sys", SimpleNamespace(stdout=stdout, stderr=io.StringIO()))


def _stdout(monkeypatch: pytest.MonkeyPatch, read_end: int, write_end: int) -> Iterator[Reader]:
    reader = Reader(read_end, write_end)
    _stand_in(monkeypatch, reader.stdout)
    yield reader
    reader.close()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    yield from _stdout(monkeypatch, *os.pipe())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    master, slave = os.openpty()
    tty.setraw(slave, termios.TCSANOW)
    yield from _stdout(monkeypatch, master, slave)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.touch()
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def test_a_pipe_gets_every_byte_as_it_is(pipe: Reader, path: Path) -> None:
    noise = bytes(range(256)) + b"\x1b]52;c;x\x07\x1b[6n"
    append(path, noise)
    output = JobOutput(str(path))
    output.show()
    await pipe.has(noise)
    append(path, b"more")
    await pipe.has(b"more")
    output.hide()
    append(path, b" meanwhile" + bytes(MAX_BEHIND + 1))
    output.show()
    append(path, b" last")
    output.finish()

    assert pipe.ended() == noise + b"more meanwhile" + bytes(MAX_BEHIND + 1) + b" last"


async def test_a_terminal_is_not_made_to_answer_or_changed_for_good(terminal: Reader, path: Path) -> None:
    append(path, b"a\x1b[6nb\x1b]52;c;x\x07c\x1b[31mred\x1b[0m\x1bcd\x05\xff.")
    output = JobOutput(str(path))
    output.show()
    output.finish()

    assert terminal.ended().startswith("abc\x1b[31mred\x1b[0md\ufffd.".encode())


async def test_a_character_that_comes_in_two_halves_is_whole(terminal: Reader, path: Path) -> None:
    append(path, "ä".encode()[:1])
    output = JobOutput(str(path))
    output.show()
    append(path, "ä".encode()[1:] + b"\x1b[3")
    await terminal.has("ä".encode())
    append(path, b"1mred")
    await terminal.has(b"\x1b[31mred")
    output.finish()


async def test_what_is_printed_under_a_debugger_is_shown_behind_it(terminal: Reader, path: Path) -> None:
    output = JobOutput(str(path))
    output.show()
    append(path, b"first ")
    await terminal.has(b"first ")
    output.hide()
    hidden = len(terminal.data)
    append(path, b"meanwhile ")
    for _ in range(5):
        await asyncio.sleep(0)
    assert b"meanwhile" not in terminal.data[hidden:]
    output.show()
    await terminal.has(b"meanwhile ")
    output.finish()


async def test_a_sequence_that_is_cut_off_and_colours_end_where_the_debugger_begins(
    terminal: Reader, path: Path
) -> None:
    append(path, b"\x1b[31mred\x1b[?25l")
    output = JobOutput(str(path))
    output.show()
    await terminal.has(b"\x1b[?25l")
    append(path, b"\x1b[3")
    output.hide()

    await terminal.has(b"\x1b[31mred\x1b[?25l" + CALM)
    output.finish()


@pytest.mark.parametrize("ends", ["hide", "finish"])
async def test_what_a_job_does_to_the_terminal_ends_with_it(terminal: Reader, path: Path, ends: str) -> None:
    append(
        path,
        b"one\r\ntwo\x1b[31m\x1b[?1000h\x1b[?2004h\x1b[?25l\x1b[?7l\x1b[?5h\x1b[4h\x1b(0\x1b[3;9r\x1b[2;4H"
        b"\x1b]8;;https://x.y\x07",
    )
    output = JobOutput(str(path))
    output.show()
    await terminal.has(b"x.y\x07")
    getattr(output, ends)()
    screen = VirtualScreen(24, 80)
    screen.feed(await terminal.has_all(CALM) + b"qq")
    if ends == "hide":
        output.finish()

    assert screen.private_modes == {7, 25}
    assert not screen.cursor_hidden
    assert screen.rows[:2] == ["one", "twoqq"]
    assert screen.colours(1)[4] == ("default", "default")


async def test_much_that_was_printed_meanwhile_is_left_out_and_said(
    approved: Approved, terminal: Reader, path: Path
) -> None:
    output = JobOutput(str(path))
    output.show()
    output.hide()
    append(path, b"x" * (2 * MAX_BEHIND) + b"the end")
    output.show()
    output.finish()

    before, _, end = terminal.ended().decode().partition(f"all of it is in {path}\n")
    2 * MAX_BEHIND + len("the end") - END_SHOWN
    approved(before)
    assert end.startswith("x" * (END_SHOWN - len("the end")) + "the end\x18")


async def test_a_little_that_was_printed_meanwhile_is_all_there(terminal: Reader, path: Path) -> None:
    output = JobOutput(str(path))
    output.hide()
    append(path, b"x" * MAX_BEHIND)
    output.show()
    output.finish()

    assert b"x" * MAX_BEHIND in terminal.ended()


async def test_a_reader_that_has_seen_enough_ends_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stdout:
        _stand_in(monkeypatch, stdout)
        output = JobOutput(str(path))
        os.close(read_end)
        append(path, b"nobody reads this")
        output.show()
        append(path, b"nor this")
        output.hide()
        output.show()
        output.finish()


def _both_terminals(monkeypatch: pytest.MonkeyPatch, stdout: TextIO) -> None:
    monkeypatch.setattr(job_output, "sys", SimpleNamespace(stdout=stdout, stderr=stdout))
    monkeypatch.setattr(job_output, "terminal_size", lambda: (24, 80))
    monkeypatch.setattr(job_output, "tell", lambda sentence: os.write(stdout.fileno(), f"{sentence}\r\n".encode()))
    monkeypatch.setenv("TERM", "xterm")


async def test_a_sentence_is_kept_below_the_output_and_is_gone_behind_it(
    terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _both_terminals(monkeypatch, terminal.stdout)
    screen = VirtualScreen(24, 80)
    append(path, b"one\r\n")
    output = JobOutput(str(path))
    output.show()
    assert output.keep_last("waits")
    await terminal.has(b"waits")
    append(path, b"two\r\n 50%")
    await terminal.has(b"50%\x1bD\x1b[1A")
    output.say("The broker is gone.")
    screen.feed(await terminal.has_all(b"gone.\r\n\x1bD\x1b[1A\x1b7\x1b[1B\r\x1b[0mwaits\x1b[K\x1b8"))
    assert screen.rows[:6] == ["one", "two", " 50%", "The broker is gone.", "", "waits"]
    output.keep_last("")
    output.hide()
    append(path, b"three")
    output.show()
    output.finish()
    screen = VirtualScreen(24, 80)
    screen.feed(terminal.ended())
    assert [row for row in screen.rows if row] == ["one", "two", " 50%", "The broker is gone.", "three"]


async def test_a_sentence_may_wait_for_the_output_that_hides_it(
    terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _both_terminals(monkeypatch, terminal.stdout)
    output = JobOutput(str(path))
    output.show()
    output.keep_last("Enter comes back", at_once=False)
    append(path, b"one\r\n")
    await terminal.has(b"Enter comes back")
    output.finish()
    assert terminal.ended().startswith(b"one\r\n\x1bD")


async def test_a_debugger_begins_on_a_row_of_its_own_behind_a_bar(
    terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _both_terminals(monkeypatch, terminal.stdout)
    append(path, b"\r 50%|###")
    output = JobOutput(str(path))
    output.show()
    await terminal.has(b"###")
    output.hide()
    await terminal.has(CALM + b"\r\n")
    output.finish()


@pytest.mark.parametrize("without", ["a terminal", "stderr on it", "a terminal that can"])
async def test_nothing_is_kept_where_there_is_no_such_row(
    pipe: Reader, terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    monkeypatch.setenv("TERM", "dumb" if without == "a terminal that can" else "xterm")
    stdout = pipe.stdout if without == "a terminal" else terminal.stdout
    stderr = pipe.stdout if without == "stderr on it" else terminal.stdout
    monkeypatch.setattr(job_output, "sys", SimpleNamespace(stdout=stdout, stderr=stderr))
    output = JobOutput(str(path))
    assert not output.keep_last("waits")
    output.finish()
    assert b"waits" not in pipe.ended() + terminal.ended()


async def test_bars_are_not_drawn_over_what_was_told_meanwhile(
    terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _both_terminals(monkeypatch, terminal.stdout)
    append(path, b"outer\r\ninner")
    output = JobOutput(str(path))
    output.show()
    append(path, b"\r\x1b[1Aouter\r\ninner")
    await terminal.has(b"inner\r\x1b[1A")
    output.hide()
    output.say("Detached")
    output.show()
    append(path, b"\r\x1b[1Aouter\r\ninner")
    output.finish()
    screen = VirtualScreen(24, 80)
    # The emulated terminal has no mode in which a line feed goes to the line's beginning.
    screen.feed(terminal.ended().replace(b"\n", b"\r\n").replace(b"\r\r", b"\r"))
    assert [row for row in screen.rows if row] == ["outer", "inner", "Detached", "outer", "inner"]
