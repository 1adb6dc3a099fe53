"""The socket of one terminal in a page: a seat at one rank, over a connection to the broker of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dbg_client.core.errors import bug
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.effects import Bell, Blank, Completed, Cut, Effect, Finish, LogText, Look, Note, Open, Show
from dbg_client.seat.notices import missing_on_the_way
from dbg_client.seat.seat import Seat
from dbg_client.views.list import show_place
from dbg_client.web import messages
from dbg_command.sequences import QueryFilter, TextFilter
from dbg_wire.errors import DbgError, PeerError
from dbg_wire.messages import Mode, PromptInfo
from dbg_wire.records.ranks import LINE_ENGINE

if TYPE_CHECKING:
    from dbg_client.core.link import Event
    from dbg_client.core.switchboard import Switchboard
    from dbg_client.verbs.preferences import Wish
    from dbg_client.web.outbox import Outbox
    from dbg_wire.records.ranks import RankInfo

COLORS = 256
"""Colours of the page's terminal."""

CTRL_C = b"\x03"

OVER, REFUSED, NO_RANK = 4000, 4001, 4004
"""Codes of a close: the stop is over; there is no seat, or a fault; there is no such rank."""


class PageSeat:
    """One seat of a page: keys and lines come in, what the debugger shows goes out; it ends with the socket.

    ``wish`` is the debugger to open. ``why_not`` says why the page may not type, and is empty if it may.
    """

    def __init__(
        self, switchboard: Switchboard, rank: RankInfo, mode: Mode, outbox: Outbox, *, wish: Wish, why_not: str
    ) -> None:
        self._switchboard, self._rank, self._outbox = switchboard, rank, outbox
        self._mode = Mode.WATCH if why_not else mode
        self._wish, self._why_not = wish, why_not
        self._seat: Seat | None = None
        self._opening: asyncio.Task[None] | None = None
        self._screen, self._log = QueryFilter(), TextFilter()
        self._state: messages.State | None = None
        self._prompt = messages.Prompt(number=-1, text="", state="", held=0)
        self._completions: dict[int, int] = {}

    # ---------------------------------------------------------------------------------------------------- the page

    async def receive(self, frame: str | bytes) -> None:
        """Take what the page sends. Raises PeerError."""
        item = frame if isinstance(frame, bytes) else messages.read(messages.TERMINAL, frame)
        if isinstance(item, messages.Size):
            self._resize(item)
        elif self._seat is None:
            raise PeerError("a page's terminal that has no size yet")
        elif isinstance(item, bytes):
            self._type(self._seat, item)
        elif isinstance(item, messages.Complete):
            self._complete(self._seat, item)
        else:
            self._act(self._seat, item)
        self._tell()

    async def leave(self) -> None:
        """Leave the rank as it is."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        if self._seat is not None:
            self._seat.end()
        await self._switchboard.close()

    def _resize(self, size: messages.Size) -> None:
        if self._seat is None:
            self._seat = Seat(
                self._switchboard,
                self._rank,
                self._mode,
                size=(size.rows, size.columns),
                colors=COLORS,
                wish=self._wish,
                show=self._show,
                changed=self._changed,
            )
            self._opening = asyncio.create_task(self._open(self._seat))
        else:
            seat = self._seat
            seat.perform(seat.attachment.resize(size.rows, size.columns, seat.now()))

    async def _open(self, seat: Seat) -> None:
        try:
            # The seat need not wait for the list of all ranks, which comes as well.
            await self._switchboard.dial()
            seat.begin()
        except Exception as error:
            self._finish(error)

    def _type(self, seat: Seat, keys: bytes) -> None:
        attachment = seat.attachment
        if self._why_not:
            self._refuse(seat)
        elif attachment.engine == LINE_ENGINE and keys != CTRL_C:
            seat.perform(attachment.refuse(seat.now()))
        elif attachment.engine == LINE_ENGINE:
            seat.perform(attachment.conversation.interrupt())
        else:
            seat.perform(attachment.keys(keys, seat.now()))

    def _act(
        self,
        seat: Seat,
        item: messages.Take | messages.Release | messages.Reply | messages.EndOfInput | messages.Stop,
    ) -> None:
        attachment, conversation = seat.attachment, seat.attachment.conversation
        if self._why_not:
            self._refuse(seat)
        elif isinstance(item, messages.Take):
            seat.perform(attachment.take(seat.now()))
        elif isinstance(item, messages.Release):
            seat.go_to(self._rank, Mode.WATCH)
        elif isinstance(item, messages.EndOfInput):
            seat.perform(conversation.end_of_input())
        elif isinstance(item, messages.Stop):
            line = attachment.engine == LINE_ENGINE
            seat.perform(conversation.interrupt() if line else attachment.keys(CTRL_C, seat.now()))
        elif isinstance(item, messages.Reply):
            prompt = conversation.prompt
            at = prompt if prompt is not None and prompt.number == item.prompt else None
            seat.perform(conversation.enter(item.text, at))

    def _refuse(self, seat: Seat) -> None:
        seat.attachment.say(self._why_not, seat.now())
        self._outbox.say(messages.Bell())

    def _complete(self, seat: Seat, item: messages.Complete) -> None:
        if self._why_not:
            return
        number, effects = seat.attachment.conversation.complete(item.line, item.begin, item.end)
        # An answer that never comes must not be kept for ever.
        self._completions = {number: item.id}
        seat.perform(effects)

    # --------------------------------------------------------------------------------------------------- the rank

    def _finish(self, error: BaseException | None) -> None:
        """Tell the page that the rank is left, or of a fault of ours, and close the socket."""
        attachment = self._attached
        by = attachment.ending.by
        sentence = "it went on" + (f" ({by})" if by else "")
        is_fault = error is not None and not isinstance(error, DbgError)
        if error is not None:
            sentence = bug(error) if is_fault else str(error)  # type: ignore[arg-type]
        self._outbox.say(messages.Ended(sentence=sentence, went_on=error is None))
        is_over = not is_fault and (attachment.opened or error is None)
        self._outbox.finish(OVER if is_over else REFUSED, "the seat is over")

    def _show(self, effect: Effect) -> None:
        """Carry out an effect of the seat."""
        if isinstance(effect, Open):
            self._show_blank(self._attached.blank_text)
        elif isinstance(effect, Finish):
            self._finish(effect.error)
        elif isinstance(effect, Show):
            self._put(self._screen.feed(effect.data))
        elif isinstance(effect, LogText):
            self._put(_terminal_lines(self._log.feed(effect.data)))
        elif isinstance(effect, Blank):
            self._show_blank(effect.text)
        elif isinstance(effect, Bell):
            self._outbox.say(messages.Bell())
        elif isinstance(effect, Note):
            self._outbox.say(messages.Note(text=effect.text))
        elif isinstance(effect, Cut):
            self._log = TextFilter()
            self._outbox.say(messages.Note(text=f"{effect.count:,} bytes of output were cut"))
        elif isinstance(effect, Look):
            told = effect.source
            where, lines, breakpoints = told.where, told.lines, told.breakpoints
            self._outbox.say(messages.Around(where=where, first=told.first, lines=lines, breakpoints=breakpoints))
        elif isinstance(effect, Completed) and effect.request in self._completions:
            number = self._completions.pop(effect.request)
            self._outbox.say(messages.Completed(id=number, matches=effect.matches))

    async def _changed(self, event: Event | None) -> None:
        """Tell the page what has changed at the seat."""
        self._tell()

    # ------------------------------------------------------------------------------------------------------- inner

    @property
    def _attached(self) -> Attachment:
        if self._seat is None:
            raise RuntimeError("there is a seat once there is a size")
        return self._seat.attachment

    def _put(self, data: bytes) -> None:
        if data:
            self._outbox.put(data)

    def _show_blank(self, text: str) -> None:
        self._screen, self._log = QueryFilter(), TextFilter()
        self._outbox.say(messages.Clear(text=text))

    def _tell(self) -> None:
        """Tell the page what holds, if that is news."""
        if self._seat is None:
            return
        attachment = self._attached
        state = self._state_of(attachment, self._seat.now())
        if state != self._state:
            self._state = state
            self._outbox.say(state)
        prompt = _prompt_of(attachment.conversation.prompt, attachment.conversation.held)
        if prompt != self._prompt:
            self._prompt = prompt
            self._outbox.say(prompt)

    def _state_of(self, attachment: Attachment, now: float) -> messages.State:
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
            comes=attachment.conversation.keyboard_comes,
            driver=attachment.driver or "",
            watchers=attachment.rank.watchers,
            link=f"{missing[0]}: {missing[2]}" if missing is not None else "",
            notice=attachment.notice(now) or "",
            size=(session.rows, session.columns) if session is not None else attachment.size,
        )


def _terminal_lines(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def _prompt_of(prompt: PromptInfo | None, held: int) -> messages.Prompt:
    if prompt is None:
        return messages.Prompt(number=-1, text="", state="", held=held)
    return messages.Prompt(number=prompt.number, text=prompt.text, state=prompt.state.value, held=held)
