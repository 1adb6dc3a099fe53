"""The ``/terminal`` socket of a page: a seat at one rank, over its own connection to the broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dbg_client.core.errors import bug
from dbg_client.core.wait_progress import cancel_and_wait
from dbg_client.seat import effects
from dbg_client.seat.notices import missing_on_the_way
from dbg_client.seat.seat import Seat
from dbg_client.views.list import show_place
from dbg_client.web import messages
from dbg_command.sequences import QueryFilter, TextFilter
from dbg_wire.errors import DbgError, PeerError
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import LINE_ENGINE

if TYPE_CHECKING:
    from dbg_client.core.link import Event
    from dbg_client.core.switchboard import Switchboard
    from dbg_client.verbs.preferences import EngineSpec
    from dbg_client.web.outbox import Outbox
    from dbg_wire.records.ranks import RankInfo

COLORS = 256
"""Number of colours of the page's terminal."""

CTRL_C = b"\x03"

OVER, REFUSED, NO_RANK = 4000, 4001, 4004
"""WebSocket close codes: the stop has ended; the seat was refused or had an internal error; no such rank."""


class PageSeat:
    """One seat of a page: receives keys and lines, and sends the debugger's output, until the socket closes.

    ``spec`` is the debugger to open. ``why_not`` is the reason why the page may not type, empty if it may.
    """

    def __init__(
        self, switchboard: Switchboard, rank: RankInfo, mode: Mode, outbox: Outbox, *, spec: EngineSpec, why_not: str
    ) -> None:
        self._switchboard, self._rank, self._outbox = switchboard, rank, outbox
        self._why_not = why_not
        mode = Mode.WATCH if why_not else mode
        self._seat = Seat(switchboard, rank, mode, colors=COLORS, spec=spec, show=self._show, changed=self._changed)
        self._opening: asyncio.Task[None] | None = None
        self._screen, self._log = QueryFilter(), TextFilter()
        self._sent: dict[type[messages.ToTerminal], messages.ToTerminal] = {messages.Prompt: messages.Prompt()}

    # ---------------------------------------------------------------------------------------------------- the page

    async def receive(self, frame: str | bytes) -> None:
        """Handle a message of the page. Raises PeerError."""
        item = frame if isinstance(frame, bytes) else messages.read(messages.TERMINAL, frame)
        seat = self._seat
        if isinstance(item, messages.Size):
            seat.perform(seat.attachment.resize(item.rows, item.columns, seat.now()))
            self._opening = self._opening or asyncio.create_task(self._open())
        elif self._opening is None:
            raise PeerError("input of a page's terminal before its size")
        elif not self._why_not:
            self._act(item)
        else:
            seat.attachment.note(self._why_not, seat.now())
            self._outbox.send(messages.Bell())
        self._send_changes()

    async def leave(self) -> None:
        """Close the seat, and leave the rank as it is."""
        await cancel_and_wait(self._opening)
        self._seat.end()
        await self._switchboard.close()

    async def _open(self) -> None:
        try:
            # Don't wait for the list of all ranks, which arrives on the same connection: the seat doesn't need it.
            await self._switchboard.dial()
            self._seat.start()
        except Exception as error:
            self._finish(error)

    def _act(self, item: messages.FromTerminal | bytes) -> None:
        attachment, conversation, now = self._seat.attachment, self._seat.attachment.conversation, self._seat.now()
        is_line = attachment.engine == LINE_ENGINE
        keys = CTRL_C if isinstance(item, messages.Stop) else item
        done: effects.Effects = []
        if isinstance(keys, bytes):
            # For a line debugger the page has an input field, so single keys except Ctrl-C are refused.
            refused = conversation.interrupt if keys == CTRL_C else lambda: attachment.refuse(now)
            done = refused() if is_line else attachment.keys(keys, now)
        elif isinstance(item, messages.Take):
            done = attachment.take(now)
        elif isinstance(item, messages.Release):
            self._seat.go_to(self._rank, Mode.WATCH)
        elif isinstance(item, messages.EndOfInput):
            done = conversation.end_of_input()
        elif isinstance(item, messages.Reply):
            prompt = conversation.prompt
            at = prompt if prompt is not None and prompt.number == item.prompt else None
            done = conversation.enter(item.text, at)
        self._seat.perform(done)

    # --------------------------------------------------------------------------------------------------- the rank

    def _finish(self, error: BaseException | None) -> None:
        """Report to the page that the seat has ended, or an internal error, and close the socket."""
        attachment = self._seat.attachment
        by = attachment.ending.by
        sentence = "the rank has resumed" + (f" ({by})" if by else "")
        if error is not None:
            sentence = str(error) if isinstance(error, DbgError) else bug(error)  # type: ignore[arg-type]
        self._outbox.send(messages.Ended(sentence=sentence))
        is_over = error is None or (attachment.opened and isinstance(error, DbgError))
        self._outbox.finish(OVER if is_over else REFUSED, "the seat has ended")

    def _show(self, effect: effects.Effect) -> None:
        """Carry out an effect of the seat."""
        if isinstance(effect, effects.Open):
            self._show_blank(self._seat.attachment.blank_text)
        elif isinstance(effect, effects.Blank):
            self._show_blank(effect.text)
        elif isinstance(effect, effects.Finish):
            self._finish(effect.error)
        elif isinstance(effect, effects.Show):
            self._put(self._screen.feed(effect.data))
        elif isinstance(effect, effects.LogText):
            self._put(self._log.feed(effect.data).replace("\n", "\r\n").encode())
        elif isinstance(effect, effects.Bell):
            self._outbox.send(messages.Bell())
        elif isinstance(effect, effects.Note):
            self._outbox.send(messages.Note(text=effect.text))
        elif isinstance(effect, effects.Cut):
            self._log = TextFilter()
            self._outbox.send(messages.Note(text=f"{effect.count:,} bytes of output were cut"))

    async def _changed(self, event: Event | None) -> None:
        self._send_changes()

    def _put(self, data: bytes) -> None:
        if data:
            self._outbox.put(data)

    def _show_blank(self, text: str) -> None:
        self._screen, self._log = QueryFilter(), TextFilter()
        self._outbox.send(messages.Clear(text=text))

    def _send_changes(self) -> None:
        """Send the seat's state and prompt to the page if they have changed."""
        conversation = self._seat.attachment.conversation
        prompt = messages.Prompt(held=conversation.held)
        if (asked := conversation.prompt) is not None:
            prompt = prompt.replace(number=asked.number, text=asked.text, state=asked.state.value)
        for item in (self._state(), prompt):
            if self._sent.get(type(item)) != item:
                self._sent[type(item)] = item
                self._outbox.send(item)

    def _state(self) -> messages.State:
        attachment, now = self._seat.attachment, self._seat.now()
        report, engine = attachment.report, attachment.engine
        session = report.session if report is not None else None
        stop = report.stop if report is not None else None
        missing = missing_on_the_way(attachment.away, now)
        return messages.State(
            kind="" if engine is None else "lines" if engine == LINE_ENGINE else "screen",
            engine=engine or "",
            state=report.state.value if report is not None else attachment.rank.state.value,
            place=(show_place(stop.where) if stop is not None else None) or "",
            driving=attachment.driving,
            comes=attachment.conversation.keyboard_is_due,
            driver=attachment.driver or "",
            watchers=attachment.rank.watchers,
            link=f"{missing[0]}: {missing[2]}" if missing is not None else "",
            notice=attachment.notice(now) or "",
            size=(session.rows, session.columns) if session is not None else attachment.size,
        )
