"""Session of one terminal at one rank, which continues when the broker or the debugger changes."""

from __future__ import annotations

import asyncio
import enum
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from dbg_client.core.choose import Choice, neighbour
from dbg_client.core.link import Down, Event, Up
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.wait_progress import cancel_and_wait
from dbg_client.seat.attachment import Attachment
from dbg_client.seat.effects import Bell, Effect, Effects, Finish, Open
from dbg_client.seat.seat import Seat
from dbg_client.shell.streams import notify
from dbg_client.terminal.escape import HELP, help_text
from dbg_client.terminal.raw import RawDisplay
from dbg_client.terminal.recording import Recording
from dbg_client.terminal.screen import RawTerminal, catch_hangup, release_hangup
from dbg_client.terminal.status_line import Others, Status, count_others, status_of
from dbg_client.verbs.attach_options import AttachOptions
from dbg_client.verbs.preferences import COMMON_NAMES, key_name
from dbg_wire.codec import Output
from dbg_wire.errors import DbgError, printable
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import DEFAULT_ENGINE, LINE_ENGINE, RankInfo

if TYPE_CHECKING:
    from dbg_client.terminal.line_display import LineDisplay

    Display = RawDisplay | LineDisplay

STDIN, STDOUT = 0, 1

Picked = tuple[Choice | None, bytes]
"""The rank to attach to next, if any, and keys that were typed and not used."""


MAX_DEED = 600
"""Maximum characters of the sentence on the user who ended the stop. The sentence has two names and a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options of one session; ``note`` is appended to the session's first line.

    ``startup`` returns the first commands for a rank's line debugger.
    """

    attach: AttachOptions
    colors: int
    color: bool
    note: str | None = None
    startup: Callable[[str], deque[str]] = lambda _: deque()
    recording: Recording | None = None

    @property
    def prefix_name(self) -> str:
        """Name of the escape key; empty for no such key."""
        return key_name(self.attach.prefix) if self.attach.prefix else ""


class End(enum.Enum):
    """The ways in which a session ends."""

    DETACHED = "detached"
    WENT_ON = "went on"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """End of a session at a rank.

    ``error`` is the reason of a failure, ``opened`` is True if the session began. ``loss`` is the sentence about keys
    that were discarded just before the end, if any. ``ended_by`` is the sentence about another user who ended the
    stop, else empty.
    """

    end: End
    rank: RankInfo
    opened: bool
    error: DbgError | None = None
    loss: str | None = None
    ended_by: str = ""


def how_it_ended(outcome: SessionOutcome) -> str:
    """Describe the session's end in a few words without a full stop."""
    by = printable(outcome.ended_by, MAX_DEED)
    if outcome.error is not None:
        return f"{by}: {outcome.error}" if by else str(outcome.error)
    return f"{printable(outcome.rank.address)} resumed{f': {by}' if by else ''}"


class Session:
    """One session, which connects the user and the broker until it ends.

    Belongs to one event loop, and uses stdin and stdout, which must be terminals. One of two displays handles input and
    output, depending on the open debugger. The terminal is taken when the broker grants the seat, and is restored when
    :meth:`run` returns or raises.
    """

    def __init__(self, switchboard: Switchboard, rank: RankInfo, options: SessionOptions) -> None:
        self.options = options
        self.others = Others()
        self._switchboard = switchboard
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[SessionOutcome] = self._loop.create_future()
        self._terminal = RawTerminal(STDIN, STDOUT)
        self._raw = RawDisplay(self, self._terminal)
        self._display: Display | None = None
        asked = options.attach
        self.seat = Seat(
            switchboard,
            rank,
            asked.mode,
            size=self._raw.size,
            colors=options.colors,
            spec=asked.spec,
            frame=asked.frame,
            prefix=options.prefix_name,
            startup=options.startup,
            show=self._show,
            changed=self._changed,
        )
        self._back: RankInfo | None = None
        self._choosing = asyncio.Lock()
        self._lending: asyncio.Task[None] | None = None

    @property
    def attachment(self) -> Attachment:
        """The present rank's attachment."""
        return self.seat.attachment

    async def run(self) -> SessionOutcome:
        """Attach, and return the session's outcome. Raises BadInput if stdin is not a terminal."""
        with self._terminal:
            self._catch_signals()
            self._loop.set_exception_handler(self._callback_failed)
            try:
                async with self.seat.held():
                    return await self._done
            finally:
                self._loop.set_exception_handler(None)
                await cancel_and_wait(self._lending)
                if self._display is not None:
                    await self._display.close()
                self._release_signals()

    @property
    def ended(self) -> bool:
        """Whether the session is over."""
        return self._done.done()

    def _catch_signals(self) -> None:
        former = signal.getsignal(signal.SIGTERM)
        self._loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self._loop.add_signal_handler(signal.SIGTERM, partial(self._terminated, former))
        catch_hangup(self._loop, self.detach)

    def _release_signals(self) -> None:
        self._loop.remove_signal_handler(signal.SIGWINCH)
        self._loop.remove_signal_handler(signal.SIGTERM)
        release_hangup(ignores=self._detached)

    def _terminated(self, former: object) -> None:
        self.detach()
        if callable(former):
            # In `dbg-attach run`, the former handler passes SIGTERM on to the job, because the job must end as well.
            former(signal.SIGTERM, None)

    @property
    def _detached(self) -> bool:
        done = self._done
        ended = done.done() and not done.cancelled() and done.exception() is None
        return ended and done.result().end is End.DETACHED

    def _callback_failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # End the session: the loop only logs a bug in a callback, and the terminal would then ignore keys.
        error = context.get("exception")
        if "handle" in context and error is not None and not self._done.done():
            self._done.set_exception(error)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.seat.now()

    def status(self, *, pending: bool) -> Status:
        """Return the contents of the status line; ``pending`` if the escape key was just typed."""
        prefix = self.options.prefix_name
        return status_of(self.attachment, self.others, self.now(), prefix=prefix, pending=pending)

    # ------------------------------------------------------------------------------------------------------ life cycle

    def _opened(self) -> None:
        """Start to show the rank, whose seat was granted to this terminal."""
        moved, self._back = self._back is not None, None
        self.others = count_others(self.attachment.rank, self._switchboard.directory.ranks)
        if self._display is not None:
            if moved:
                self.attachment.note(f"attached to {self.attachment.rank.address}", self.now())
            self._display.start()

    async def _choose_display(self, *, guess: bool) -> None:
        """Show the display of the open debugger, or, with ``guess``, of the one that will probably open."""
        attachment = self.attachment
        if not attachment.opened or self._done.done() or self._lending is not None:
            return
        engine = attachment.engine
        if engine is None and self._display is None and guess:
            engine = self.options.attach.spec.asked or DEFAULT_ENGINE
        if engine is None:
            return
        lines = engine == LINE_ENGINE
        if self._display is not None and lines == (self._display is not self._raw):
            return
        keys = attachment.take_unsent()
        if self._display is None:
            notify(self._first_line())
        else:
            keys += await self._display.close()
            notify(f"{printable(attachment.rank.address)} is in {COMMON_NAMES.get(engine, printable(engine))} now.")
        self._display = self._line_display() if lines else self._raw
        await self._display.open(keys)
        self._display.start()

    def _line_display(self) -> Display:
        from dbg_client.terminal.line_display import LineDisplay  # imported here: PuDB needs no prompt

        return LineDisplay(self)

    def _first_line(self) -> str:
        engine = self.attachment.engine
        shown = f" ({COMMON_NAMES.get(engine, printable(engine))})" if engine else ""
        prefix = self.options.prefix_name
        leave = f"{prefix} d detaches, {prefix} ? helps." if prefix else "Close the window to detach."
        note = f" {printable(self.options.note)}" if self.options.note else ""
        return f"Attached to {printable(self.attachment.rank.address)}{shown}. {leave}{note}"

    def _finished(self, error: BaseException | None) -> None:
        """End the session because its rank's seat has ended, or go back to the rank that the user came from."""
        if error is not None and not isinstance(error, DbgError):
            self._failed(error)
        elif error is not None and not self.attachment.opened and self._back is not None:
            # The rank that the user went to has no seat for this terminal, so the session goes back.
            self._go_to(Choice(self._back))
            self.attachment.note(str(error), self.now())
        else:
            self._end(End.WENT_ON if error is None else End.FAILED, error)

    def detach(self) -> None:
        """End the session, because the user requests it or the terminal is gone."""
        self._end(End.DETACHED)

    def _end(self, end: End, error: DbgError | None = None) -> None:
        if not self._done.done():
            # Return the rank's newest record: its ``stop_id`` shows a later search that this stop has ended.
            rank = self._switchboard.directory.by_key.get(self.attachment.rank.key, self.attachment.rank)
            attachment = self.attachment
            loss, by = attachment.unread_loss(self.now()), "" if end is End.DETACHED else attachment.ending.by
            self._done.set_result(SessionOutcome(end, rank, attachment.opened, error, loss, by))

    def _failed(self, error: BaseException) -> None:
        if self._done.done():
            raise error
        self._done.set_exception(error)

    # ------------------------------------------------------------------------------------------------------ the broker

    async def _changed(self, event: Event | None) -> None:
        """Update the terminal after an event: use the display of the open debugger, and draw the status line."""
        if event is None:
            # Count once a second, not at each change: among thousands of ranks there is always one that changes.
            self.others = count_others(self.attachment.rank, self._switchboard.directory.ranks)
        if not isinstance(event, (Up, Down, Output)):
            async with self._choosing:
                await self._choose_display(guess=event is None)
        if self._display is not None:
            self._display.paint()

    def perform(self, effects: Effects) -> None:
        """Carry out effects, in order."""
        self.seat.perform(effects)

    def _show(self, effect: Effect) -> None:
        if isinstance(effect, Open):
            self._opened()
        elif isinstance(effect, Finish):
            self._finished(effect.error)
        elif self._display is not None:
            self._display.show(effect)

    def _resized(self) -> None:
        if self.options.recording is not None:
            self.options.recording.resized()
        (self._display or self._raw).resized()

    # ------------------------------------------------------------------------------------------------------ the user

    def command(self, key: str) -> None:
        """Carry out the key after the prefix."""
        if key in ("d", "."):
            self.detach()
        elif key == "w":
            self.perform(self.attachment.take(self.now()))
        elif key in ("n", "p"):
            self._go_to_neighbour(1 if key == "n" else -1)

    def _go_to_neighbour(self, step: int) -> None:
        rank = neighbour(self.attachment.rank, self._switchboard.directory.ranks, step)
        if rank is None:
            self.attachment.note("no other rank of this job is stopped", self.now())
            self.perform([Bell()])
        else:
            self._go_to(Choice(rank))

    def _go_to(self, choice: Choice) -> None:
        left = self.attachment
        self._back = left.rank if left.opened else None
        mode = Mode.WATCH if self.options.attach.mode is Mode.WATCH else Mode.DRIVE
        self.seat.go_to(choice.rank, choice.mode(mode))

    def lends(self, key: str) -> bool:
        """Return True if the key after the prefix opens something that uses the terminal for a while."""
        return key in ("r", ":", HELP)

    def lend_terminal(self, key: str, typed_ahead: bytes) -> None:
        """Open the list of ranks, the help page or the command line, which first reads the keys typed ahead."""
        if key == "r":
            self._lend_terminal(partial(self._pick, typed_ahead), row=False)
            return
        use = self._command if key == ":" else self._help
        self._lend_terminal(partial(use, typed_ahead), row=True)

    async def _pick(self, typed_ahead: bytes) -> Picked:
        from dbg_client.terminal.picker import pick_in_session  # an earlier import would delay the debugger's screen

        return await pick_in_session(self._switchboard.directory, self.options, typed_ahead)

    async def _command(self, typed_ahead: bytes) -> Picked:
        from dbg_client.terminal.command_line import Answering, CommandRow, run_command

        row = CommandRow(typed_ahead, self.options.recording)
        answered = await run_command(Answering(self._switchboard), self.attachment.rank, row, color=self.options.color)
        if answered is None or answered.choice is not None:
            return answered.choice if answered is not None else None, row.unused()
        await self._show_page(answered.text)
        return None, b""

    async def _help(self, typed_ahead: bytes) -> Picked:
        await self._show_page(help_text(self.options.prefix_name, lines=self._display is not self._raw))
        return None, b""

    async def _show_page(self, text: str) -> None:
        from dbg_client.terminal.command_line import show_page

        with self._terminal.lent():
            await show_page(self.options.attach.pager, text, is_drawn=self._display is self._raw)

    def _lend_terminal(self, use: Callable[[], Awaitable[Picked]], *, row: bool) -> None:
        if self._lending is None and self._display is not None:
            self._lending = self._loop.create_task(self.seat.watched(self._lend_to(use, self._display, row=row)))

    async def _lend_to(self, use: Callable[[], Awaitable[Picked]], display: Display, *, row: bool) -> None:
        await display.lend_terminal(row=row)
        try:
            choice, unused = await use()
        finally:
            self._lending = None
            display.resume()
        if choice is not None and choice.rank.key != self.attachment.rank.key:
            self._go_to(choice)
        if unused:
            display.take_keys(unused)
