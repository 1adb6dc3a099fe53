"""What is drawn on a terminal that is handed over, and afterwards."""

from __future__ import annotations

import asyncio

import pytest

from dbg_client.terminal import canvas
from dbg_client.terminal.canvas import Canvas, last_row
from dbg_client.terminal.screen import RawTerminal

ROWS, COLUMNS = 24, 80


class SlowWriter:
    """A writer to a terminal that takes nothing until :attr:`flows` is set."""

    made: SlowWriter

    def __init__(self, _descriptor: int, _loop: asyncio.AbstractEventLoop) -> None:
        self.written = b""
        self.gone = self.overflowed = False
        self.flows = asyncio.Event()
        SlowWriter.made = self

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> bool:
        await self.flows.wait()
        return False

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


class SettledTerminal(RawTerminal):
    """A terminal without settings, of a fixed size."""

    def enter_raw(self) -> None:
        """Do nothing."""

    def leave_raw(self) -> None:
        """Do nothing."""

    def size(self) -> tuple[int, int]:
        return ROWS, COLUMNS


@pytest.fixture
async def opened(monkeypatch: pytest.MonkeyPatch) -> Canvas:
    monkeypatch.setattr(canvas, "TerminalWriter", SlowWriter)
    made = Canvas(SettledTerminal(0, 1), status=True, dropped=lambda: None, gone=lambda: None)
    made.open()
    return made


async def test_nothing_of_the_rank_is_drawn_behind_the_row_that_is_lent(opened: Canvas) -> None:
    lending = asyncio.ensure_future(opened.lend(row=True))
    await asyncio.sleep(0)
    opened.show(b"drawn by the rank")
    opened.paint("a status line")
    SlowWriter.made.flows.set()
    await lending
    _, row, behind = SlowWriter.made.written.partition(last_row(ROWS))
    assert row
    assert b"rank" not in behind
    assert b"status" not in behind


async def test_a_row_is_lent_when_a_slow_terminal_has_drawn_what_came_before(
    opened: Canvas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canvas, "LEAVE_SECONDS", 0.0)
    lending = asyncio.ensure_future(opened.lend(row=True))
    await asyncio.wait({lending}, timeout=0.1)
    assert not lending.done()
    SlowWriter.made.flows.set()
    await lending


async def test_what_comes_after_the_terminal_is_taken_back_is_drawn(opened: Canvas) -> None:
    SlowWriter.made.flows.set()
    await opened.lend(row=False)
    opened.resume()
    opened.show(b"drawn by the rank")
    assert SlowWriter.made.written.endswith(b"drawn by the rank")
