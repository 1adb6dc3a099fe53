"""A file that another process appends to, read as it grows."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dbg_client.run import job_output
from dbg_client.run.job_output import READ_BYTES, GrowingFile
from tests.support.time_unit import seconds


class Reader:
    """A reader that keeps what a growing file brings."""

    def __init__(self, path: Path) -> None:
        self.data = b""
        self.stop_at: int | None = None
        self.turns: list[int] = []
        self._more = asyncio.Event()
        self.file = GrowingFile(str(path), self._take)

    def _take(self, data: bytes) -> None:
        self.data += data
        self.turns.append(len(data))
        if self.stop_at is not None and len(self.data) >= self.stop_at:
            self.file.stop()
        self._more.set()

    async def has(self, data: bytes) -> None:
        """Wait until as many bytes were read, and fail unless they are ``data``."""
        while len(self.data) < len(data):
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), seconds(20))
        assert self.data == data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "job.out"
    path.write_bytes(b"begin ")
    return path


@pytest.fixture(params=["told by the kernel", "looking"])
async def reader(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    if request.param == "looking":
        monkeypatch.setattr(job_output, "watch_growth", lambda _: None)
        monkeypatch.setattr(job_output, "LOOK_SECONDS", 0.01)
    reader = Reader(path)
    yield reader
    reader.file.close()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_what_is_there_and_what_comes_is_read(reader: Reader, path: Path) -> None:
    reader.file.start()
    await reader.has(b"begin ")
    append(path, b"one ")
    await reader.has(b"begin one ")
    append(path, b"two ")
    append(path, b"three")
    await reader.has(b"begin one two three")


async def test_while_it_is_stopped_nothing_is_read_and_afterwards_all(reader: Reader, path: Path) -> None:
    append(path, b"before ")
    assert reader.data == b""
    reader.file.start()
    await reader.has(b"begin before ")
    reader.file.stop()
    append(path, b"meanwhile ")
    for _ in range(5):
        await asyncio.sleep(0)
    assert reader.data == b"begin before "

    reader.file.start()
    append(path, b"after")
    await reader.has(b"begin before meanwhile after")


async def test_starting_and_stopping_again_does_nothing(reader: Reader, path: Path) -> None:
    reader.file.stop()
    reader.file.start()
    reader.file.start()
    append(path, b"one")
    await reader.has(b"begin one")
    reader.file.stop()
    reader.file.stop()
    append(path, b" two")
    reader.file.start()
    await reader.has(b"begin one two")


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_is_lost_or_read_twice_however_it_is_started_and_stopped(
    reader: Reader, path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test's order, no secret
    whole = b"begin "
    for number in range(60):
        what = chance.randrange(4)
        if what == 0:
            reader.file.start()
        elif what == 1:
            reader.file.stop()
        elif what == 2:
            whole += (piece := b"%d " % number * chance.choice([1, 20_000]))
            append(path, piece)
        else:
            await asyncio.sleep(0)
        assert whole.startswith(reader.data)
    reader.file.start()
    await reader.has(whole)


async def test_the_loop_has_its_turns_between_pieces_of_much(reader: Reader, path: Path) -> None:
    append(path, bytes(3 * READ_BYTES))
    reader.file.start()
    assert reader.turns == [READ_BYTES]
    await asyncio.sleep(0)
    assert max(reader.turns) == READ_BYTES
    await reader.has(b"begin " + bytes(3 * READ_BYTES))


async def test_it_can_be_stopped_by_what_it_reads(reader: Reader, path: Path) -> None:
    append(path, bytes(3 * READ_BYTES))
    reader.stop_at = READ_BYTES
    reader.file.start()
    for _ in range(5):
        await asyncio.sleep(0)
    assert reader.turns == [READ_BYTES]

    reader.stop_at = None
    reader.file.start()
    await reader.has(b"begin " + bytes(3 * READ_BYTES))


async def test_the_rest_is_read_at_once(reader: Reader, path: Path) -> None:
    append(path, bytes(3 * READ_BYTES))
    reader.file.read_rest()
    assert reader.data == b"begin " + bytes(3 * READ_BYTES)
    assert reader.file.behind == 0


async def test_bytes_can_be_left_out(reader: Reader, path: Path) -> None:
    append(path, b"one two")
    assert reader.file.behind == 13
    reader.file.skip(10)
    assert reader.file.behind == 3
    reader.file.start()
    await reader.has(b"two")


async def test_a_file_that_was_made_smaller_has_nothing_new(reader: Reader, path: Path) -> None:
    reader.file.start()
    await reader.has(b"begin ")
    os.truncate(path, 0)
    assert reader.file.behind == 0


async def test_once_closed_it_holds_nothing(path: Path) -> None:
    before = _descriptors()
    reader = Reader(path)
    reader.file.start()
    reader.file.close()

    assert _descriptors() == before
    append(path, b"more")
    for _ in range(5):
        await asyncio.sleep(0)
    assert reader.data == b"begin "
