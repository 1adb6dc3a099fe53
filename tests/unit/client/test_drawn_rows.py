"""Storms of keys, resizes and cuts in every order: in the end the screen is the one that the debugger has drawn.

A seed decides when a step ends or counts as slow, and which queue moves next; there are no sockets, threads or clocks.
What counts, drops, covers and asks for drawings is the code of the three roles. The rank also tells slow work of its
debugger while that draws, as agents up to 0.1 did.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from dbg_agent.debuggers.console import Terminal
from dbg_agent.link.outgoing import Outgoing, ReportNow
from dbg_agent.stop.stops import StopPhase, Stops
from dbg_broker.net.outbox import Outbox
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.effects import Blank, Effects, Send, Show
from dbg_client.terminal import screen
from dbg_wire.codec import Output, decode, decode_data, encode
from dbg_wire.messages import Message, Mode, RankReport, Repaint, Report, Resize, Seat, Sender, Viewers
from tests.support.screen import VirtualScreen
from tests.support.slow_transport import SlowTransport
from tests.unit.client.fake_broker import make_rank

SEEDS = 60
MOVES = 60
"""Moves of one storm: a dozen keys, and what becomes of them."""

ROWS, COLUMNS = 16, 44
LINES = 5
"""Lines of the source in which the debugger steps."""

OUTBOX_BYTES, SCREEN_BACKLOG = 6000, 2000
"""What waits in the broker, and what of a screen: some drawings, as with the real limits on a slow line."""


class DrawingRank:
    """A rank whose debugger marks the current line, and draws only the rows that have changed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.outgoing = Outgoing(lambda: None, lambda: None)
        self.outgoing.open()
        self._stops = Stops(self.outgoing.put_report)
        self._terminal = Terminal(self.outgoing.put_output)
        self._terminal.seat(viewers(ROWS, COLUMNS))
        self._stops.arrive(sys._getframe(), "breakpoint")
        self._terminal.start(self._stops.open_session("pudb", ROWS, COLUMNS).number)
        self._drawn: list[str] = []
        self._line = self._step = 0
        self._draw_anew()

    @property
    def rows(self) -> list[str]:
        """The rows as the debugger has them now."""
        marks = [">" if row == self._line % LINES else " " for row in range(self._terminal.rows)]
        return [f"{mark} line {row} of {self._terminal.columns}" for row, mark in enumerate(marks)]

    def report(self) -> RankReport:
        return self._stops.report(breakpoints=0, generation=1, applied=0)

    def begin_step(self) -> None:
        if self._stops.phase is StopPhase.OPEN:
            self._step = self._stops.step()

    def count_step_as_slow(self) -> None:
        self._stops.step_is_slow(self._step)

    def end_step(self, send: Callable[[], object]) -> None:
        if self._stops.phase is StopPhase.STEPPING:
            self._line += 1
            self._stops.halt(sys._getframe())
            if self._rng.random() < 0.2:
                self._stops.work_is_slow()
                send()
            self._draw()

    def hear(self, message: Message) -> None:
        if isinstance(message, Repaint):
            self._draw_anew()
        elif isinstance(message, Viewers) and self._terminal.seat(message):
            self._stops.resize_session(message.rows, message.columns)
            self._draw_anew()

    def _draw_anew(self) -> None:
        self._drawn = []
        if self._stops.phase is StopPhase.OPEN:
            self._draw()

    def _draw(self) -> None:
        rows, before = self.rows, self._drawn
        changed = [row for row in range(len(rows)) if len(before) != len(rows) or before[row] != rows[row]]
        width = self._terminal.columns
        self._terminal.write(b"".join(b"\x1b[%d;1H%b" % (row + 1, rows[row].ljust(width).encode()) for row in changed))
        self._drawn = rows
        self._stops.work_is_over()


def viewers(rows: int, columns: int) -> Viewers:
    return Viewers(viewers=1, rows=rows, columns=columns, generation=1, colors=256)


class Storm:
    """A rank, what its broker keeps for a terminal, and the terminal."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.rank = DrawingRank(self.rng)
        self._outbox = Outbox(OUTBOX_BYTES)
        self._transport = SlowTransport(self._outbox)
        self._to_rank: dict[type[Message], Message] = {}
        self._now = 0.0
        self._size = ROWS, COLUMNS
        self.screen = VirtualScreen(*self._size)
        self._client = Attachment(make_rank(), Mode.DRIVE, self._size, colors=256)
        self._perform(self._client.attach())
        self._sit_down()

    def _sit_down(self) -> None:
        seat = Seat(rank=make_rank(), report=self.rank.report(), generation=1, driver="me@here", watchers=0)
        self._perform(self._client.message(seat, self._now))
        self._send_to_rank(viewers(*self._size))
        self._send_to_rank(Repaint())

    def _send_to_rank(self, message: Message) -> None:
        # A newer message takes the place of one of its kind that waits for the rank, as in the broker.
        self._to_rank.pop(type(message), None)
        self._to_rank[type(message)] = message

    # ------------------------------------------------------------------------------------------------------- the moves

    def begin_step(self) -> None:
        self.rank.begin_step()

    def count_step_as_slow(self) -> None:
        self.rank.count_step_as_slow()

    def end_step(self) -> None:
        self.rank.end_step(lambda: [self.rank_sends() for _ in range(self.rng.randint(0, 4))])

    def rank_sends(self) -> bool:
        item = self.rank.outgoing.pop()
        if isinstance(item, ReportNow):
            self._outbox.send_control(encode(Report(report=self.rank.report())).encode())
        elif isinstance(item, bytes):
            self._outbox.send_output(item, SCREEN_BACKLOG)
        return item is not None

    def rank_hears(self) -> bool:
        if not self._to_rank:
            return False
        self.rank.hear(self._to_rank.pop(next(iter(self._to_rank))))
        return True

    def terminal_hears(self) -> bool:
        frame = self._transport.take()
        if frame is None:
            if self._outbox.missed():
                self._send_to_rank(Repaint())
            return False
        if frame.startswith(b"{"):
            self._perform(self._client.message(decode(frame, Sender.AGENT), self._now))
        else:
            output = decode_data(frame, Sender.AGENT)
            assert isinstance(output, Output)
            self._perform(self._client.output(output, self._now))
        return True

    def a_second_passes(self) -> None:
        self._now += 1.0
        self._perform(self._client.tick(self._now))

    def resize(self) -> None:
        self._resize(self.rng.randint(14, 18), self.rng.choice((42, 44, 46)))

    def resize_and_back(self) -> None:
        """Open and close a pane beside this one: a multiplexer drops what has no room meanwhile."""
        rows, columns = self._size
        self._resize(rows - 1, columns)
        self._resize(rows, columns)

    def cut(self) -> None:
        self._transport.take_all()
        self._outbox.missed()
        self._client.link_down("it is gone", self._now)
        self._client.link_up(self._now)
        self._perform(self._client.rank_listed(make_rank(), self._now))
        self._sit_down()

    def acknowledge(self) -> None:
        """Let the step end, and everything arrive."""
        self.end_step()
        for _ in range(3):
            while self.rank_hears() or self.rank_sends() or self.terminal_hears():
                pass
            self.a_second_passes()

    # ---------------------------------------------------------------------------------------------------- the terminal

    def _resize(self, rows: int, columns: int) -> None:
        self._size = rows, columns
        self.screen.resize(rows, columns)
        self._perform(self._client.resize(rows, columns, self._now))

    def _perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Show):
                self.screen.feed(effect.data)
            elif isinstance(effect, Blank):
                self.screen.feed(screen.blank(effect.text, *self._size))
            elif isinstance(effect, Send) and isinstance(effect.item, Repaint):
                self._send_to_rank(effect.item)
            elif isinstance(effect, Send) and isinstance(effect.item, Resize):
                self._send_to_rank(viewers(effect.item.rows, effect.item.columns))


FAULTS: dict[str, tuple[Callable[[Storm], object], ...]] = {
    "none": (),
    "sizes": (Storm.resize, Storm.resize_and_back),
    "cuts": (Storm.cut,),
}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_storm_the_screen_is_what_the_debugger_has_drawn(fault: str, seed: int) -> None:
    storm = Storm(seed)
    storm.acknowledge()
    queues = (Storm.rank_sends, Storm.rank_hears, Storm.terminal_hears) * 2
    keys = (Storm.begin_step, Storm.count_step_as_slow, Storm.end_step)
    moves = (*keys, *queues, Storm.a_second_passes, *FAULTS[fault] * 2)
    for _ in range(MOVES):
        storm.rng.choice(moves)(storm)
    storm.acknowledge()
    assert storm.screen.rows == storm.rank.rows
