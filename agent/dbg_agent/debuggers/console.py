"""The output of the open debugger for terminals: its screen's bytes, and the prompts and log of a line debugger.

A debugger draws or prints into these objects and never into a descriptor of the rank. So the program's own terminal,
stdin and stdout are never touched, and nothing can block the debugger. The program's stdin and stdout are replaced only
in the thread that runs a command, and only while it runs.
"""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from dbg_agent.stop.inbox import (
    BreakPrompt,
    DebuggerExit,
    ExitDebugger,
    MoveThread,
    ProgramRaised,
    SwitchDebugger,
    TypedLine,
    Work,
)
from dbg_wire.codec import Output, SessionLog, encode_data
from dbg_wire.limits import MAX_COLUMNS, MAX_DATA_BYTES, MAX_LOG, MAX_ROWS, MIN_COLUMNS, MIN_ROWS
from dbg_wire.messages import PromptInfo, PromptState, Replied, Viewers
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.interruptible import Interruptible
    from dbg_agent.stop.stops import Stops

DEFAULT_ROWS, DEFAULT_COLUMNS = 24, 80
"""Size of a screen that is drawn before a terminal has reported its own size."""

PROMPT_GONE = "the prompt it was typed for is gone"
"""Reason for discarding a reply."""

UNWINDING = (ExitDebugger, MoveThread, SwitchDebugger, ProgramRaised)
"""Exceptions that a prompt raises to end the whole debugger, not only the command that reads from the prompt."""

TAIL_SECONDS = 0.2
"""Time in seconds after which the start of an unfinished line is shown. It may be a progress bar, or the text before a
prompt."""

MAX_REPLAY = MAX_LOG // 2
"""Maximum number of bytes of the log that are sent again for one request. The outgoing queue has less room than a full
log needs, and would drop messages. When a terminal has received these bytes, it requests more."""

MAX_TAIL = 4096
"""Maximum number of characters at the start of a line that are held back because they may be a prompt."""


class Terminal:
    """The screen's size and viewers; sends the written bytes in pieces, each with its session and offset."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._screen_lock = threading.RLock()
        self.rows, self.columns = DEFAULT_ROWS, DEFAULT_COLUMNS
        self.viewers = 0
        self.engine: str | None = None
        self.fallback_engine: str | None = None
        self._session = 0
        self._offset = 0

    def seat(self, viewers: Viewers) -> bool:
        """Record the viewers and their screen size; return True if the size has changed."""
        with self._screen_lock:
            self.viewers = viewers.viewers
            self.engine, self.fallback_engine = viewers.engine, viewers.fallback_engine
            return viewers.viewers > 0 and self._resize(viewers.rows, viewers.columns)

    def resize(self, rows: int, columns: int) -> bool:
        """Use this size, within limits; return True if it has changed."""
        with self._screen_lock:
            return self._resize(rows, columns)

    def start(self, session: int) -> None:
        """Count offsets for this session from now on."""
        with self._screen_lock:
            if session != self._session:
                self._session, self._offset = session, 0

    def write(self, data: bytes) -> None:
        """Send screen bytes to the terminals; without a terminal only count them, and draw them again later."""
        with self._screen_lock:
            for start in range(0, len(data), MAX_DATA_BYTES):
                piece = data[start : start + MAX_DATA_BYTES]
                if self.viewers:
                    self._send(encode_data(Output(self._session, self._offset, piece)))
                self._offset += len(piece)

    def send_again(self, session: int, offset: int, data: bytes) -> None:
        """Send bytes that were sent before, or dropped; a terminal that has them skips them by their offset."""
        with self._screen_lock:
            if self.viewers and session == self._session:
                self._send(encode_data(Output(session, offset, data)))

    def _resize(self, rows: int, columns: int) -> bool:
        size = (min(max(rows, MIN_ROWS), MAX_ROWS), min(max(columns, MIN_COLUMNS), MAX_COLUMNS))
        if size == (self.rows, self.columns):
            return False
        self.rows, self.columns = size
        return True


class Counted(Protocol):
    """Breakpoints that are counted after each command."""

    def update(self) -> None:
        """Report the number of breakpoints, if it has changed."""


class StoppedThread(Protocol):
    """The debugger's interface to the stopped thread; methods run in that thread."""

    def traced_thread_halts(
        self, name: str, frame: FrameType, interact: Callable[[], DebuggerExit], *, resumes: bool = False
    ) -> None:
        """Halt after a step or at a breakpoint; with ``resumes`` the breakpoint's commands resume the thread."""

    def start_reporting(self) -> None:
        """Report the calling thread's stop, which now waits for a user, unless the stop has already been reported."""

    def carry_out(self, work: Work | None) -> None:
        """Do work of the inbox; an exception that it raises unwinds the debugger."""

    def acknowledge_keys(self, count: int) -> None:
        """Acknowledge that the debugger has read this many bytes."""


class Console(io.TextIOBase):
    """The stdin and stdout of a line debugger in the stopped thread; ``write`` may be called from any thread."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        broker: ToBroker,
        stops: Stops,
        inbox: Inbox,
        interruptible: Interruptible,
        breakpoints: Counted,
        thread: StoppedThread,
    ) -> None:
        super().__init__()
        self._terminal = terminal
        self._broker = broker
        self._stops = stops
        self._inbox = inbox
        self._interruptible = interruptible
        self._breakpoints = breakpoints
        self._thread = thread
        self._lock = threading.RLock()
        self._written: deque[str] = deque()
        """Written text that is not in the log yet."""
        self._log = SessionLog()
        self._tail = ""
        self._begun = 0
        """Number of unfinished lines so far, and the id of the latest one. By this id a timer notices that a newer line
        has begun."""
        self._begun_at = self._timer_until = 0.0
        self._number = 0
        self._prompt: PromptInfo | None = None
        self._replied = 0
        self._is_interrupted = False
        self.state = PromptState.COMMAND
        self.unwinding: BaseException | None = None
        """The exception that a prompt raised to end the debugger. An expression that calls `input()` may catch it, so
        it is kept here."""

    # ---------------------------------------------------------------------------------------------------------- output

    def start(self) -> None:
        """Begin the log of a new session."""
        with self._lock:
            self._receive_written()
            self._log, self._tail = SessionLog(), ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return False: a program must not use a terminal's features here."""
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override] # a plain attribute in the base class
        """The encoding of the log."""
        return "utf-8"

    def write(self, text: str) -> int:
        """Add text to the log. The start of a line waits briefly for its end, because it may be a prompt."""
        self._written.append(text)
        # A finalizer or a signal handler may write while this very thread holds the lock; its text is added later. Only
        # the lock itself can tell that it is held: a flag or a context manager in Python might never be reset, because
        # Ctrl-C may arrive between any two of its instructions.
        if not self._lock._is_owned():  # type: ignore[attr-defined] # `threading.Condition` uses it, too
            with self._lock:
                self._receive_written()
            self._show_later()
            self._interruptible.raise_wanted()
        return len(text)

    def _receive_written(self) -> None:
        # Text that a finalizer writes during this loop waits for the next call; otherwise this loop might never end.
        for _ in range(len(self._written)):
            text = self._written.popleft()
            waited = bool(self._tail)
            whole, newline, self._tail = (self._tail + text).rpartition("\n")
            if newline:
                self._append(whole + newline)
            if len(self._tail) > MAX_TAIL:
                self._append(self._tail)
                self._tail = ""
            if self._tail and (newline or not waited):
                self._begin_line()

    def _begin_line(self) -> None:
        self._begun += 1
        self._begun_at = time.monotonic()

    def _show_later(self) -> None:
        """Schedule the display of the last unfinished line. One timer serves thousands of lines."""
        now = time.monotonic()
        # The time when the timer ends is kept instead of a flag, because Ctrl-C could leave a flag set forever.
        if self._tail and self._prompt is None and now >= self._timer_until:
            left = max(0.0, min(TAIL_SECONDS, self._begun_at + TAIL_SECONDS - now))
            self._timer_until = now + left
            self._broker.call_later(left, partial(self._timer_ended, self._begun))

    def close(self) -> None:
        """Do nothing: ``exit()`` closes its stdin, but more prompts follow."""

    def flush(self) -> None:
        """Do nothing: whole lines are sent at once, and an unfinished line after TAIL_SECONDS."""

    def _timer_ended(self, begun: int) -> None:
        """Show the unfinished line of this timer; if a newer line has begun since, start a timer for that line."""
        with self._lock:
            self._timer_until = 0.0
            if self._prompt is None and self._begun == begun:
                self._append(self._tail)
                self._tail = ""
        self._show_later()

    def _append(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        self._log.append(data)
        self._terminal.write(data)

    # ----------------------------------------------------------------------------------------------------------- input

    @property
    def prompt(self) -> PromptInfo | None:
        """The prompt that waits for a reply; None once a reply is under way. May be read from any thread."""
        prompt = self._prompt
        return prompt if prompt is not None and prompt.number != self._replied else None

    def reply(self, number: int, text: str) -> bool:
        """Send a reply to the prompt of that number; may be called from any thread.

        Return False if that prompt no longer waits for a reply, or if the inbox is full.
        """
        with self._lock:
            prompt = self.prompt
            if prompt is None or prompt.number != number:
                return False
            # The reply is queued and recorded under one lock. `ask` closes the prompt under the same lock, so the stop
            # can't end between these two steps.
            if not self._inbox.put(self._stops.number, TypedLine(text, number)):
                return False
            self._replied = number
            return True

    def interrupt(self) -> bool:
        """Record an interrupt for a command that runs or is about to start; return False at a prompt.

        The record is needed for a reply that still waits in the inbox. The reply's command has not started, so the
        command has no ticket yet by which it could be interrupted. May be called from any thread.
        """
        with self._lock:
            prompt = self._prompt
            begins = prompt is not None and prompt.state is PromptState.COMMAND and prompt.number == self._replied
            self._is_interrupted = prompt is None or begins
            return self._is_interrupted

    def consume_interrupt(self) -> bool:
        """Return True, once, if an interrupt is recorded; may be called from any thread."""
        with self._lock:
            is_interrupted, self._is_interrupted = self._is_interrupted, False
            return is_interrupted

    def readline(self, _size: int | None = -1) -> str:  # type: ignore[override] # positional in the base class, too
        """Wait for a line, as ``sys.stdin`` would."""
        return self.ask(self.state) + "\n"

    def ask(self, state: PromptState) -> str:
        """Make the unfinished line the prompt and wait for the reply; do the work of the inbox during the wait."""
        with self._lock:
            self._receive_written()
            # The prompt's text is removed first, because a timer may show it as output.
            text, self._tail = self._tail, ""
        self._thread.start_reporting()
        self._breakpoints.update()
        with self._lock:
            self._receive_written()
            self._number += 1
            self._prompt = clamp(PromptInfo, number=self._number, offset=self._log.end, text=text, state=state)
            # A recorded interrupt was meant for the command that has ended, and not for this prompt.
            self._is_interrupted = False
        self._broker.publish()
        reply: str | None = None
        try:
            with self._interruptible.suspended():
                reply = self._wait()
            return reply
        except UNWINDING as error:
            self.unwinding = error
            raise
        except KeyboardInterrupt:
            reply = "^C"
            raise
        finally:
            with self._lock:
                self._prompt = None
                # The log gets the question and the reply, for terminals that watch or reconnect.
                self._append(text if reply is None else f"{text}{reply}\n")
                if self._tail:
                    # Another line began while the prompt waited, and was not shown then. Its delay starts again now.
                    self._begin_line()
            self._show_later()
            self._broker.publish()

    def _wait(self) -> str:
        inbox, stop = self._inbox, self._stops.number
        while True:
            work = inbox.next_work(stop)
            if isinstance(work, TypedLine):
                if work.prompt == self._number:
                    return work.text
                self._broker.send(clamp(Replied, prompt=work.prompt, taken=False, reason=PROMPT_GONE))
            if isinstance(work, BreakPrompt) and work.prompt == self._number:
                raise KeyboardInterrupt
            self._thread.carry_out(work)

    # --------------------------------------------------------------------------------------------------------- replay

    def replay(self, session: int, offset: int) -> None:
        """Send up to MAX_REPLAY bytes of the log again, starting at ``offset``; runs in the link's thread."""
        with self._lock:
            first, data = self._log.since(offset)
            data = data[:MAX_REPLAY]
            for start in range(0, len(data), MAX_DATA_BYTES):
                piece = data[start : start + MAX_DATA_BYTES]
                self._terminal.send_again(session, first + start, piece)

    def replay_end(self, session: int) -> None:
        """Send the end of the log again: terminals then request the bytes that they lack. Runs in the link's thread."""
        with self._lock:
            first, data = self._log.since(self._log.end - MAX_DATA_BYTES)
            self._terminal.send_again(session, first, data)

    def last_lines(self, count: int) -> tuple[str, ...]:
        """Return the last lines of the log; may be called from any thread."""
        with self._lock:
            _, data = self._log.since(self._log.end - 64 * 1024)
            prompt = self._prompt.text if self._prompt is not None else ""
        lines = (data.decode("utf-8", "replace") + prompt).splitlines()
        return tuple(lines[-count:])
