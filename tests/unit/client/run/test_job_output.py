"""What a job prints, shown on a terminal or passed on through a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from dbg_client.run import job_output
from dbg_client.run.job_output import END_SHOWN, MAX_BEHIND, READ_BYTES, GrowingFile, JobOutput, LastLine, clipped
from dbg_client.terminal.screen import CALM
from tests.conftest import Approved
from tests.support.approved import as_text
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
    append(path, b"a\x1b[6nb\x1b]52;c;x\x07c\x1b[31mred\x1b[0m\x1bcd\x05\xff." + "ä".encode()[:1])
    output = JobOutput(str(path))
    output.show()
    await terminal.has("abc\x1b[31mred\x1b[0md\ufffd.".encode())
    append(path, "ä".encode()[1:] + b"\x1b[")
    await terminal.has("ä".encode())
    append(path, b"6n.")
    output.finish()

    assert terminal.ended().startswith("abc\x1b[31mred\x1b[0md\ufffd.ä.".encode())


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


@pytest.mark.parametrize("ends", ["hide", "finish"])
async def test_what_a_job_does_to_the_terminal_ends_with_it(terminal: Reader, path: Path, ends: str) -> None:
    append(
        path,
        b"one\r\ntwo\x1b[31m\x1b[?1000h\x1b[?2004h\x1b[?25l\x1b[?7l\x1b[?5h\x1b[4h\x1b(0\x1b[3;9r\x1b[2;4H"
        b"\x1b]8;;https://x.y\x07\x1b[3",
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

    before, _, end = terminal.ended().decode().partition(f" {path}\n")
    approved(before)
    assert end.startswith("x" * (END_SHOWN - len("the end")) + "the end\x18")


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
    approved: Approved, terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch
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
    approved(as_text(screen.rows[:6]))
    output.keep_last("")
    output.hide()
    append(path, b"three")
    output.show()
    output.finish()
    screen = VirtualScreen(24, 80)
    screen.feed(terminal.ended())
    approved(as_text([row for row in screen.rows if row]), "2")


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


class ReaderGrowingFile:
    """A reader that keeps what a growing file brings."""

    def __init__(self, path: Path) -> None:
        self.data = b""
        self.turns: list[int] = []
        self._more = asyncio.Event()
        self.file = GrowingFile(str(path), self._take)

    def _take(self, data: bytes) -> None:
        self.data += data
        self.turns.append(len(data))
        self._more.set()

    async def has(self, data: bytes) -> None:
        """Wait until as many bytes were read, and fail unless they are ``data``."""
        while len(self.data) < len(data):
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), seconds(20))
        assert self.data == data


@pytest.fixture(params=["told by the kernel", "looking"])
async def reader(
    request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ReaderGrowingFile]:
    if request.param == "looking":
        monkeypatch.setattr(job_output, "watch_growth", lambda _: None)
        monkeypatch.setattr(job_output, "LOOK_SECONDS", 0.01)
    append(path, b"begin ")
    reader = ReaderGrowingFile(path)
    yield reader
    reader.file.close()


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_what_is_there_and_what_comes_is_read(reader: ReaderGrowingFile, path: Path) -> None:
    reader.file.start()
    await reader.has(b"begin ")
    append(path, b"one ")
    await reader.has(b"begin one ")
    append(path, b"two ")
    append(path, b"three")
    await reader.has(b"begin one two three")


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_is_lost_or_read_twice_however_it_is_started_and_stopped(
    reader: ReaderGrowingFile, path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test's order, no secret
    whole, is_reading = b"begin ", False
    for number in range(60):
        before = reader.data
        what = chance.randrange(4)
        if what < 2:
            is_reading = what == 0
            (reader.file.start if is_reading else reader.file.stop)()
        elif what == 2:
            whole += (piece := b"%d " % number * chance.choice([1, 20_000]))
            append(path, piece)
        else:
            await asyncio.sleep(0)
        assert whole.startswith(reader.data)
        assert is_reading or reader.data == before
    reader.file.start()
    await reader.has(whole)


async def test_the_loop_has_its_turns_between_pieces_of_much(reader: ReaderGrowingFile, path: Path) -> None:
    append(path, bytes(3 * READ_BYTES))
    reader.file.start()
    assert reader.turns == [READ_BYTES]
    await asyncio.sleep(0)
    assert max(reader.turns) == READ_BYTES
    await reader.has(b"begin " + bytes(3 * READ_BYTES))


async def test_a_file_that_was_made_smaller_has_nothing_new(reader: ReaderGrowingFile, path: Path) -> None:
    reader.file.start()
    await reader.has(b"begin ")
    os.truncate(path, 0)
    assert reader.file.behind == 0


async def test_once_closed_it_holds_nothing(path: Path) -> None:
    before = _descriptors()
    append(path, b"begin ")
    reader = ReaderGrowingFile(path)
    reader.file.start()
    reader.file.close()

    assert _descriptors() == before
    append(path, b"more")
    for _ in range(5):
        await asyncio.sleep(0)
    assert reader.data == b"begin "


ROWS, COLUMNS = 8, 20


class Shown:
    """A screen with the line, and one beside it that gets the job's output alone."""

    def __init__(self, rows: int = ROWS) -> None:
        self.line = LastLine()
        self.rows = rows
        self.screen, self.plain = VirtualScreen(rows, COLUMNS), VirtualScreen(rows, COLUMNS)

    def prints(self, text: str, kept: str = "") -> None:
        data = text.encode()
        # A terminal in its usual mode makes a carriage return and a line feed of each.
        on_screen = data.replace(b"\n", b"\r\n")
        erased = self.line.erase(COLUMNS, data)
        self.line.note(data)
        self.screen.feed(erased + on_screen)
        self.plain.feed(on_screen)
        if kept:
            self.keeps(kept)

    def keeps(self, text: str) -> None:
        self.screen.feed(self.line.draw(text, self.rows, COLUMNS))

    @property
    def output(self) -> list[str]:
        return [row for row in self.screen.rows if row]


@pytest.mark.parametrize(
    ("printed", "output"),
    [
        (["one\n"], ["one"]),
        (["one\n", "two\n"], ["one", "two"]),
        ([f"line {number}\n" for number in range(30)], [f"line {number}" for number in range(24, 30)]),
        ([f"\r{percent:3}%|{'#' * (percent // 10):10}|" for percent in range(0, 101, 10)], ["100%|##########|"]),
        (["100%|##|", "\nend\n"], ["100%|##|", "end"]),
        (["x" * COLUMNS, "y\n"], ["x" * COLUMNS, "y"]),
        (["50%|####\r", "60%"], ["60%|####"]),
    ],
    ids=["a line", "two lines", "a screen that scrolls", "a bar", "behind a bar", "a full row", "a carriage return"],
)
def test_the_line_stays_below_what_is_printed(printed: list[str], output: list[str]) -> None:
    shown = Shown()
    for text in printed:
        shown.prints(text, "waiting")
    assert shown.output == [*output, "waiting"]


def test_bars_below_each_other_stay_where_they_are() -> None:
    shown = Shown()
    # As tqdm draws them: the cursor is behind the upper one.
    for count in range(5):
        shown.prints(f"\router {count}", "waiting")
        shown.prints(f"\n\rinner {count}\x1b[A", "waiting")
        shown.prints("\r")
        assert shown.screen.rows[:2] == shown.plain.rows[:2]
        shown.keeps("waiting")
        assert shown.screen.rows[2] == "waiting"
    assert shown.output == ["outer 4", "inner 4", "waiting"]


def test_colours_of_the_job_are_not_the_lines_and_go_on_behind_it() -> None:
    shown = Shown()
    shown.prints("\x1b[31mred", "waiting")
    assert shown.screen.colours(1)[0] == ("default", "default")
    shown.prints("der\n")
    assert shown.screen.colours(0)[4] == ("red", "default")


@pytest.mark.parametrize("text", ["one\n", "one", "no\rone\n"])
def test_an_enter_that_was_typed_leaves_nothing_of_it(text: str) -> None:
    shown = Shown()
    shown.prints(text, "waiting for long")
    shown.screen.feed(b"\r\n")
    shown.prints("two\n")
    assert shown.output == ["one", "two"]


@pytest.mark.parametrize("screen", ["\x1b[?1049h", "\x1b[3;4H", "\x1b[2;5r", "\x1b7", "\x1b[s"])
def test_a_job_that_draws_a_screen_of_its_own_is_left_alone(screen: str) -> None:
    line = LastLine()
    line.note(screen.encode())
    assert not line.is_possible
    assert line.draw("waiting", ROWS, COLUMNS) == b""


def test_a_long_sentence_is_cut() -> None:
    shown = Shown()
    shown.prints("one\n", "a sentence that is longer than the screen is wide")
    assert shown.output[1] == "a sentence that i…"
    assert clipped("界界界", 5) == "界…"
    assert clipped("short", 5) == "short"


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_printed_looks_the_same_without_the_line(seed: int) -> None:
    pieces = ["one\n", "two", "\rbar 50%", "\x1b[31mred\x1b[0m", "\n\n", "x" * COLUMNS, "\x1b[K", "\n\x1b[A", "y" * 7]
    chosen = random.Random(seed)  # noqa: S311
    shown = Shown()
    for _ in range(chosen.randrange(1, 6)):
        shown.prints(chosen.choice(pieces), chosen.choice(["", "waiting", "still waiting"]))
    shown.screen.feed(shown.line.erase(COLUMNS))
    assert [row for row in shown.screen.rows if row] == [row for row in shown.plain.rows if row]


def test_the_end_is_a_row_of_its_own() -> None:
    shown = Shown()
    assert shown.line.end() == b""
    shown.prints("50%", "waiting")
    shown.screen.feed(shown.line.erase(COLUMNS) + shown.line.end() + b"Attached")
    assert shown.output == ["50%", "Attached"]
