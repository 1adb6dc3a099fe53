"""The socket of one terminal in a page: a seat at one rank, over a connection to the broker of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dbg_client.core.errors import bug
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.driving import Driving
from dbg_client.seat.effects import Bell, Blank, Completed, Cut, Effect, LogText, Look, Note, Show
from dbg_client.seat.notices import missing_on_the_way
from dbg_client.web import messages
from dbg_command.sequences import QueryFilter, TextFilter
from dbg_wire.errors import DbgError, PeerError
from dbg_wire.messages import Mode, PromptInfo
from dbg_wire.tables.engines import LINE_ENGINE

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
        self._driving: Driving | None = None
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
        elif self._driving is None:
            raise PeerError("a page's terminal that has no size yet")
        elif isinstance(item, bytes):
            self._type(self._driving, item)
        elif isinstance(item, messages.Complete):
            self._complete(self._driving, item)
        else:
            self._act(self._driving, item)
        self._tell()

    async def leave(self) -> None:
        """Leave the rank as it is."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        if self._driving is not None:
            self._driving.end()
        await self._switchboard.close()

    def _resize(self, size: messages.Size) -> None:
        if self._driving is None:
            attachment = self._attachment(self._mode, (size.rows, size.columns))
            self._driving = Driving(self._switchboard, attachment, self)
            self._opening = asyncio.create_task(self._open(self._driving))
        else:
            driving = self._driving
            driving.perform(driving.attachment.resize(size.rows, size.columns, driving.now()))

    def _attachment(self, mode: Mode, size: tuple[int, int]) -> Attachment:
        return Attachment(self._rank, mode, size, colors=COLORS, wish=self._wish)

    async def _open(self, driving: Driving) -> None:
        try:
            # The seat need not wait for the list of all ranks, which comes as well.
            await self._switchboard.dial()
            driving.begin()
        except DbgError as error:
            self.finished(error)
        except Exception as error:
            self.failed(error)

    def _type(self, driving: Driving, keys: bytes) -> None:
        attachment = driving.attachment
        if self._why_not:
            self._refuse(driving)
        elif attachment.engine == LINE_ENGINE and keys != CTRL_C:
            driving.perform(attachment.refuse(driving.now()))
        elif attachment.engine == LINE_ENGINE:
            driving.perform(attachment.conversation.interrupt())
        else:
            driving.perform(attachment.keys(keys, driving.now()))

    def _act(
        self,
        driving: Driving,
        item: messages.Take | messages.Release | messages.Reply | messages.EndOfInput | messages.Stop,
    ) -> None:
        attachment, conversation = driving.attachment, driving.attachment.conversation
        if self._why_not:
            self._refuse(driving)
        elif isinstance(item, messages.Take):
            driving.perform(attachment.take(driving.now()))
        elif isinstance(item, messages.Release):
            driving.go_to(self._attachment(Mode.WATCH, attachment.size))
        elif isinstance(item, messages.EndOfInput):
            driving.perform(conversation.end_of_input())
        elif isinstance(item, messages.Stop):
            line = attachment.engine == LINE_ENGINE
            driving.perform(conversation.interrupt() if line else attachment.keys(CTRL_C, driving.now()))
        elif isinstance(item, messages.Reply):
            prompt = conversation.prompt
            at = prompt if prompt is not None and prompt.number == item.prompt else None
            driving.perform(conversation.enter(item.text, at))

    def _refuse(self, driving: Driving) -> None:
        driving.attachment.say(self._why_not, driving.now())
        self._outbox.say(messages.Bell())

    def _complete(self, driving: Driving, item: messages.Complete) -> None:
        if self._why_not:
            return
        number, effects = driving.attachment.conversation.complete(item.line, item.begin, item.end)
        # An answer that never comes must not be kept for ever.
        self._completions = {number: item.id}
        driving.perform(effects)

    # --------------------------------------------------------------------------------------------------- the rank

    def opened(self) -> None:
        """Show the rank from its beginning."""
        self._show_blank(self._attached.blank_text)

    def finished(self, error: DbgError | None) -> None:
        """Tell the page that the rank is left, and close the socket."""
        by = self._attached.ending.by
        went_on = "it went on" + (f" ({by})" if by else "")
        self._outbox.say(messages.Ended(sentence=str(error) if error is not None else went_on, went_on=error is None))
        opened = self._attached.opened
        self._outbox.finish(OVER if opened or error is None else REFUSED, "the seat is over")

    def failed(self, error: BaseException) -> None:
        """Tell the page of a fault of ours, and close the socket."""
        sentence = str(error) if isinstance(error, DbgError) else bug(error)  # type: ignore[arg-type]
        self._outbox.say(messages.Ended(sentence=sentence, went_on=False))
        self._outbox.finish(REFUSED, "a fault")

    def show(self, effect: Effect) -> None:
        """Carry out an effect that is about the screen."""
        if isinstance(effect, Show):
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

    async def changed(self, event: Event | None) -> None:
        """Tell the page what has changed at the seat."""
        self._tell()

    # ------------------------------------------------------------------------------------------------------- inner

    @property
    def _attached(self) -> Attachment:
        if self._driving is None:
            raise RuntimeError("there is a seat once there is a size")
        return self._driving.attachment

    def _put(self, data: bytes) -> None:
        if data:
            self._outbox.put(data)

    def _show_blank(self, text: str) -> None:
        self._screen, self._log = QueryFilter(), TextFilter()
        self._outbox.say(messages.Clear(text=text))

    def _tell(self) -> None:
        """Tell the page what holds, if that is news."""
        if self._driving is None:
            return
        attachment = self._attached
        attachment.away.broker_silent_since = self._switchboard.silent_since
        state = self._state_of(attachment, self._driving.now())
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
            where=stop.where if stop is not None else None,
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
