"""The user's terminal: its modes, what is written to it, and what is drawn while it is lent."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import struct
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pyte
import pytest

from dbg_client.seat.attachment import Attachment
from dbg_client.seat.effects import Show
from dbg_client.terminal import raw, screen
from dbg_client.terminal.raw import RawDisplay
from dbg_client.terminal.screen import CANCEL, MAX_BUFFERED, RawTerminal, TerminalWriter, last_row
from dbg_client.terminal.session import Session, SessionOptions
from dbg_client.terminal.status_line import Status
from dbg_client.verbs.attach_options import AttachOptions
from dbg_command.sequences import PRIVATE_MODES
from dbg_wire.errors import BadInput
from dbg_wire.messages import Mode
from tests.unit.client.fake_broker import make_rank

PUSH_KEYBOARD = b"\x1b[>u"
POP_KEYBOARD = b"\x1b[<u"


@dataclass
class Terminal:
    """A terminal: ``program`` is the side of the client, ``window`` the side of the user."""

    window: int
    program: int

    def settings(self) -> list[object]:
        return list(termios.tcgetattr(self.program))

    def shown(self) -> bytes:
        """Return what has been written so far and not been read."""
        shown = b""
        while select.select([self.window], [], [], 0)[0]:
            shown += os.read(self.window, 65536)
        return shown

    def received(self) -> bytes:
        """Return what a program may read now."""
        return os.read(self.program, 100) if select.select([self.program], [], [], 0)[0] else b""

    def close_window(self) -> None:
        os.close(self.window)
        self.window = -1

    def fill(self) -> None:
        """Write until the terminal takes no more, as if its window were frozen."""
        own = os.open(os.ttyname(self.program), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        # One refusal is not enough: the kernel moves bytes to another buffer and then takes more.
        refused = 0
        while refused < 3:
            try:
                os.write(own, b"x")
                refused = 0
            except BlockingIOError:
                refused += 1
                select.select([], [own], [], 0.05)
        os.close(own)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    there = Terminal(*os.openpty())
    yield there
    for fd in (there.window, there.program):
        if fd >= 0:
            os.close(fd)


@pytest.fixture
def raw_terminal(terminal: Terminal) -> Terminal:
    attributes = termios.tcgetattr(terminal.program)
    attributes[1] = 0  # written bytes arrive unchanged
    termios.tcsetattr(terminal.program, termios.TCSANOW, attributes)
    return terminal


def odd_settings(terminal: Terminal) -> list[object]:
    attributes = termios.tcgetattr(terminal.program)
    attributes[0] ^= termios.IXANY | termios.ICRNL
    attributes[3] ^= termios.ECHOK
    attributes[6][termios.VERASE] = b"\x08"
    termios.tcsetattr(terminal.program, termios.TCSANOW, attributes)
    return terminal.settings()


def test_settings_are_restored_exactly_after_an_exception(terminal: Terminal) -> None:
    before = odd_settings(terminal)
    with contextlib.suppress(ZeroDivisionError), RawTerminal(terminal.program, terminal.program) as owner:
        owner.enter_raw()
        assert terminal.settings() != before
        raise ZeroDivisionError
    assert terminal.settings() == before
    assert terminal.shown().endswith(b"\x1b[?25h")


@pytest.mark.parametrize(
    ("calls", "entered"),
    [
        (["leave_raw", "restore"], 0),
        (["enter_raw", "restore", "restore", "leave_raw"], 1),
        (["enter_raw", "leave_raw"] * 3, 3),
        (["enter_raw", "a shell has put its settings back", "enter_raw"], 1),
    ],
)
def test_each_entry_is_undone_once(terminal: Terminal, calls: list[str], entered: int) -> None:
    before, own = terminal.settings(), termios.tcgetattr(terminal.program)
    with RawTerminal(terminal.program, terminal.program) as owner:
        for call in calls:
            if call.startswith("a shell"):
                termios.tcsetattr(terminal.program, termios.TCSANOW, own)
            else:
                getattr(owner, call)()
            assert (terminal.settings() != before) is (call == "enter_raw")
    owner.restore()
    assert terminal.settings() == before
    shown = terminal.shown()
    assert (shown.count(PUSH_KEYBOARD), shown.count(POP_KEYBOARD)) == (entered, entered)


def test_keys_typed_ahead_survive_the_change_of_mode_but_not_the_end(terminal: Terminal) -> None:
    with RawTerminal(terminal.program, terminal.program) as owner:
        os.write(terminal.window, b"nn")
        owner.enter_raw()
        assert terminal.received() == b"nn"
        os.write(terminal.window, b"line\n")
        owner.leave_raw()
        assert terminal.received() == b"line\n"
        owner.enter_raw()
        os.write(terminal.window, b"rm *\n")
    assert terminal.received() == b""


def test_a_refusal_without_a_terminal_names_an_alternative() -> None:
    reading, writing = os.pipe()
    with pytest.raises(BadInput, match=r"not a terminal; .*screen"), RawTerminal(reading, writing):
        pass
    os.close(reading)
    os.close(writing)


def test_a_closed_window_causes_no_error(terminal: Terminal) -> None:
    with RawTerminal(terminal.program, terminal.program) as owner:
        owner.enter_raw()
        terminal.close_window()
        assert owner.size() == (24, 80)
        owner.enter_raw()
        owner.leave_raw()
    owner.restore()


def test_a_frozen_window_does_not_block_the_client(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "RESTORE_PATIENCE", 0.01)
    before = terminal.settings()
    with RawTerminal(terminal.program, terminal.program) as owner:
        owner.enter_raw()
        terminal.fill()
    assert terminal.settings() == before


@pytest.mark.parametrize(("rows", "columns", "expected"), [(50, 132, (50, 132)), (0, 0, (24, 80))])
def test_the_terminal_gives_the_size(terminal: Terminal, rows: int, columns: int, expected: tuple[int, int]) -> None:
    fcntl.ioctl(terminal.program, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    assert RawTerminal(terminal.program, terminal.program).size() == expected


def reset_bytes(terminal: Terminal) -> bytes:
    with RawTerminal(terminal.program, terminal.program) as owner:
        owner.enter_raw()
        terminal.shown()
    return terminal.shown()


def test_each_mode_that_a_rank_can_set_is_reset(raw_terminal: Terminal) -> None:
    reset = reset_bytes(raw_terminal)
    alternate_screens = {47, 1047, 1048}  # undone by leaving 1049
    normally_on = {7, 25}
    for mode in PRIVATE_MODES - alternate_screens:
        assert b"\x1b[?%d%c" % (mode, b"h" if mode in normally_on else b"l") in reset, mode


def strict_emulator() -> pyte.Screen:
    """Return a screen that moves the cursor when the scroll region is reset or the alternate screen is left.

    As in tmux, the cursor then goes back to where it was when the alternate screen was entered last.
    """
    emulated = pyte.Screen(40, 6)
    set_margins, set_mode, reset_mode = emulated.set_margins, emulated.set_mode, emulated.reset_mode
    entered_at = [(0, 0)]

    def homing(*margins: int) -> None:
        set_margins(*margins)
        emulated.cursor_position()

    def saving(*modes: int, private: bool = False) -> None:
        set_mode(*modes, private=private)
        if private and 1049 in modes:
            entered_at[0] = emulated.cursor.y, emulated.cursor.x

    def restoring(*modes: int, private: bool = False) -> None:
        reset_mode(*modes, private=private)
        if private and 1049 in modes:
            emulated.cursor.y, emulated.cursor.x = entered_at[0]

    emulated.set_margins, emulated.set_mode, emulated.reset_mode = homing, saving, restoring
    return emulated


def test_the_reset_keeps_the_cursor_and_restores_region_colours_and_charset(raw_terminal: Terminal) -> None:
    # The emulator knows no "<" sequences and would print their last letter.
    reset = reset_bytes(raw_terminal).replace(POP_KEYBOARD, b"")
    emulated = strict_emulator()
    stream = pyte.ByteStream(emulated)
    stream.feed(b"\x1b%@one\r\n\x1b[31;4mtwo\x1b[2;4r\x1b[3;5H\x1b[4h\x1b[?25l\x1b(0\x1b)0\x0e")
    before = emulated.display
    stream.feed(reset)
    assert emulated.display == before
    assert (emulated.cursor.y, emulated.cursor.x) == (2, 4)
    assert emulated.margins is None
    assert not emulated.cursor.hidden
    stream.feed(b"qx")
    assert emulated.display[2].strip() == "qx"
    assert (emulated.buffer[2][4].fg, emulated.buffer[2][4].underscore) == ("default", False)


def test_the_reset_first_cancels_an_unfinished_sequence(raw_terminal: Terminal) -> None:
    # The byte is written alone where output was dropped.
    assert reset_bytes(raw_terminal).startswith(CANCEL)


class Reader:
    """A reader of the window side, which reads while the loop runs."""

    def __init__(self, fd: int) -> None:
        self.data = b""
        self._fd = fd
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        self.data += os.read(self._fd, 65536)
        self._changed.set()

    async def until(self, condition: Callable[[bytes], bool]) -> bytes:
        while not condition(self.data):
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 20)
        return self.data

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)


@pytest.fixture
async def writer(raw_terminal: Terminal) -> TerminalWriter:
    return TerminalWriter(raw_terminal.program, asyncio.get_running_loop())


async def test_a_frozen_terminal_overflows_within_the_limit_and_recovers(
    raw_terminal: Terminal, writer: TerminalWriter
) -> None:
    line = b"\x1b[38;5;200mtext\x1b[0m\r\n"
    written = 0
    while not writer.overflowed:
        writer.write(line * 1000)
        written += 1000 * len(line)
        assert writer.buffered <= MAX_BUFFERED
        assert written < 10 * MAX_BUFFERED
    writer.write(b"while overflowed")
    assert os.get_blocking(raw_terminal.program)
    assert writer.buffered == len(CANCEL)
    reader = Reader(raw_terminal.window)
    assert await asyncio.wait_for(writer.drain(), 20) is True
    assert not writer.overflowed
    writer.write(b"repaint")
    seen = await reader.until(lambda seen: seen.endswith(b"repaint"))
    taken = seen.removesuffix(CANCEL + b"repaint")
    assert taken == (line * (written // len(line)))[: len(taken)]
    assert await asyncio.wait_for(writer.drain(), 20) is False
    reader.stop()
    writer.close()


async def test_a_closed_window_ends_the_wait_and_discards_output(
    raw_terminal: Terminal, writer: TerminalWriter
) -> None:
    raw_terminal.fill()
    writer.write(b"x" * 1000)
    draining = asyncio.create_task(writer.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    raw_terminal.close_window()
    await asyncio.wait_for(draining, 20)
    assert writer.gone
    writer.write(b"x" * 2 * MAX_BUFFERED)
    assert (writer.buffered, writer.overflowed) == (0, False)
    writer.close()


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
async def opened(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawDisplay]:
    monkeypatch.setattr(raw, "TerminalWriter", SlowWriter)
    keyboard, other = os.pipe()
    monkeypatch.setattr(raw, "STDIN", keyboard)
    options = SessionOptions(attach=AttachOptions(), colors=8, color=False)
    attachment = Attachment(make_rank(), Mode.DRIVE, (ROWS - 1, COLUMNS), colors=8)
    status = Status(address="gpu013:5", state="stopped")
    host = SimpleNamespace(
        options=options, attachment=attachment, now=lambda: 0.0, perform=list, status=lambda pending: status
    )
    made = RawDisplay(cast("Session", host), SettledTerminal(0, 1))
    await made.open(b"")
    yield made
    asyncio.get_running_loop().remove_reader(keyboard)
    os.close(keyboard)
    os.close(other)


async def test_no_output_of_the_rank_is_drawn_while_a_row_is_lent(opened: RawDisplay) -> None:
    lending = asyncio.ensure_future(opened.lend_terminal(row=True))
    await asyncio.sleep(0)
    opened.show(Show(b"drawn by the rank"))
    opened.paint()
    SlowWriter.made.flows.set()
    await lending
    _, row, behind = SlowWriter.made.written.partition(last_row(ROWS))
    assert row
    assert b"rank" not in behind
    assert b"stopped" not in behind


async def test_a_row_is_lent_after_a_slow_terminal_has_drawn_earlier_output(
    opened: RawDisplay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "LEAVE_SECONDS", 0.0)
    lending = asyncio.ensure_future(opened.lend_terminal(row=True))
    await asyncio.wait({lending}, timeout=0.1)
    assert not lending.done()
    SlowWriter.made.flows.set()
    await lending


async def test_output_after_the_terminal_is_returned_is_drawn(opened: RawDisplay) -> None:
    SlowWriter.made.flows.set()
    await opened.lend_terminal(row=False)
    opened.resume()
    opened.show(Show(b"drawn by the rank"))
    assert SlowWriter.made.written.endswith(b"drawn by the rank")
