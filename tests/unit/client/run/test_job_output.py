"""What a job prints, shown on a terminal or passed on through a pipe."""

from __future__ import annotations

import asyncio
import contextlib
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
from dbg_client.run.job_output import END_SHOWN, MAX_BEHIND, READ_BYTES, GrowingFile, JobOutput
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
    monkeypatch.setattr(job_output, "sys", SimpleNamespace(stdout=stdout))


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


async def test_pipe_receives_every_byte_unchanged(pipe: Reader, path: Path) -> None:
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


async def test_output_cannot_query_or_permanently_change_a_terminal(terminal: Reader, path: Path) -> None:
    append(path, b"a\x1b[6nb\x1b]52;c;x\x07c\x1b[31mred\x1b[0m\x1bcd\x05\xff." + "ä".encode()[:1])
    output = JobOutput(str(path))
    output.show()
    await terminal.has("abc\x1b[31mred\x1b[0md\ufffd.".encode())
    append(path, "ä".encode()[1:] + b"\x1b[")
    await terminal.has("ä".encode())
    append(path, b"6n.")
    output.finish()

    assert terminal.ended().startswith("abc\x1b[31mred\x1b[0md\ufffd.ä.".encode())


async def test_output_under_a_debugger_is_shown_afterwards(terminal: Reader, path: Path) -> None:
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
async def test_terminal_is_reset_at_the_end_of_the_output(terminal: Reader, path: Path, ends: str) -> None:
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
    end = b"\r\n" if ends == "hide" else b""
    screen.feed(await terminal.has_all(CALM + end) + b"qq")
    if ends == "hide":
        output.finish()

    assert screen.private_modes == {7, 25}
    assert not screen.cursor_hidden
    assert screen.rows[:3] == (["one", "two", "qq"] if end else ["one", "twoqq", ""])
    assert screen.colours(2 if end else 1)[1 if end else 4] == ("default", "default")


async def test_much_hidden_output_is_omitted_with_a_note(approved: Approved, terminal: Reader, path: Path) -> None:
    output = JobOutput(str(path))
    output.show()
    output.hide()
    append(path, b"x" * (2 * MAX_BEHIND) + b"the end")
    output.show()
    output.finish()

    before, _, end = terminal.ended().decode().partition(f" {path}\n")
    approved(before)
    assert end.startswith("x" * (END_SHOWN - len("the end")) + "the end\x18")


async def test_closed_pipe_raises_no_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(("printed", "shown"), [(b"one\r\n", b"one\r\n"), (b" 50%|##", b" 50%|##\r\n")])
async def test_message_begins_on_a_new_line(
    terminal: Reader, path: Path, monkeypatch: pytest.MonkeyPatch, printed: bytes, shown: bytes
) -> None:
    monkeypatch.setattr(job_output, "notify", lambda _: os.write(terminal.stdout.fileno(), b"note"))
    output = JobOutput(str(path))
    output.show()
    append(path, printed)
    await terminal.has(printed)
    output.print_line("note")
    assert await terminal.has_all(b"note") == shown + b"note"
    output.finish()


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


@pytest.fixture(params=["notified by the kernel", "looking"])
async def reader(
    request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ReaderGrowingFile]:
    if request.param == "looking":
        monkeypatch.setattr(job_output, "watch_growth", lambda _: None)
        monkeypatch.setattr(job_output, "CHECK_SECONDS", 0.01)
    append(path, b"begin ")
    reader = ReaderGrowingFile(path)
    yield reader
    reader.file.close()


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_existing_and_new_data_is_read(reader: ReaderGrowingFile, path: Path) -> None:
    reader.file.start()
    await reader.has(b"begin ")
    append(path, b"one ")
    await reader.has(b"begin one ")
    append(path, b"two ")
    append(path, b"three")
    await reader.has(b"begin one two three")


@pytest.mark.parametrize("seed", range(5))
async def test_data_is_read_exactly_once_despite_starts_and_stops(
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


async def test_large_data_is_read_in_pieces_between_turns_of_the_loop(reader: ReaderGrowingFile, path: Path) -> None:
    append(path, bytes(3 * READ_BYTES))
    reader.file.start()
    assert reader.turns == [READ_BYTES]
    await asyncio.sleep(0)
    assert max(reader.turns) == READ_BYTES
    await reader.has(b"begin " + bytes(3 * READ_BYTES))


async def test_closed_file_holds_no_descriptor(path: Path) -> None:
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
