"""The queue of data that a rank sends to the broker, in order and of limited size, even over a slow network.

Any thread fills the queue; the link's thread empties it. The queue is empty while the link is down, because a
registration sends the whole state again.

All locks here and in the callers are reentrant. A signal handler or finalizer of the program may print, and so acquire
a lock that its own thread already holds. A signal handler may run after any instruction of the main thread. A finalizer
may run at any allocation, which may start the garbage collector.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from dbg_agent.process.log import Logger, write_stderr
from dbg_agent.stop.inbox import Loss
from dbg_wire.codec import LogForm, join_outputs
from dbg_wire.errors import DbgError
from dbg_wire.limits import MAX_LINK_BACKLOG, MIB
from dbg_wire.messages import Discarded, Message
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp

MAX_MESSAGES = 4096
"""Maximum number of waiting control messages. If more wait, the broker is not reading them, and the link
reconnects."""

MAX_MESSAGE_BYTES = 16 * MIB
"""Maximum number of characters of waiting messages: sixteen of the longest messages. Two of the longest messages wait
at the same time only if many terminals ask a rank at once."""


class ReportNow:
    """A mark in the queue for a report. The report is made only when it is sent, so it is never outdated."""


REPORT_NOW: Final = ReportNow()

Item = str | bytes | ReportNow


class Outgoing:
    """A queue of text frames, binary frames and report marks.

    If screen output exceeds its limit, all of it is dropped, and ``needs_redraw`` stays true until the link's thread
    requests a redraw of the screen. Single messages are never dropped, because the broker would then have outdated
    facts. If messages exceed their limit, the whole queue is emptied and ``start_afresh`` is called; a new connection
    sends the whole state.
    """

    def __init__(self, wake: Callable[[], None], start_afresh: Callable[[], None]) -> None:
        self._wake = wake
        self._start_afresh = start_afresh
        self._lock = threading.RLock()
        self._items: deque[Item] = deque()
        self._open = False
        self._output_bytes = 0
        self._messages = 0
        self._message_bytes = 0
        self.needs_redraw = False

    def open(self) -> None:
        """Empty the queue and accept items for a new connection."""
        with self._lock:
            self._empty()
            self._open = True

    def close(self) -> None:
        """Empty the queue and accept nothing until the next connection."""
        with self._lock:
            self._empty()
            self._open = False

    def put_report(self) -> None:
        """Queue a report."""
        with self._lock:
            if not self._open or (self._items and self._items[-1] is REPORT_NOW):
                return
            self._append(REPORT_NOW)

    def put_message(self, text: str) -> None:
        """Queue a control message, or make the link reconnect if too many wait."""
        with self._lock:
            if not self._open:
                return
            is_too_much = self._messages >= MAX_MESSAGES or self._message_bytes + len(text) > MAX_MESSAGE_BYTES
            if is_too_much:
                self._empty()
                self._open = False
            else:
                self._messages += 1
                self._message_bytes += len(text)
                self._append(text)
        if is_too_much:
            self._start_afresh()

    def put_output(self, frame: bytes) -> bool:
        """Queue output; if the limit is exceeded, drop it and all queued output. Return True if the frame is queued."""
        with self._lock:
            if not self._open or self.needs_redraw:
                return False
            if self._output_bytes + len(frame) > MAX_LINK_BACKLOG:
                for _ in range(len(self._items)):
                    item = self._items.popleft()
                    if not isinstance(item, bytes):
                        self._items.append(item)
                self._output_bytes = 0
                self.needs_redraw = True
                return False
            last = self._items[-1] if self._items else None
            joined = join_outputs(last, frame) if isinstance(last, bytes) else None
            if joined is not None and isinstance(last, bytes):
                # Programs print a line in pieces, which are joined here into one frame. A frame of many lines costs no
                # more than a frame of one line.
                self._items[-1] = joined
                self._output_bytes += len(joined) - len(last)
            else:
                self._output_bytes += len(frame)
                self._append(frame)
        return True

    def pop(self) -> Item | None:
        """Return the next item to send, or None if the queue is empty."""
        with self._lock:
            if not self._items:
                return None
            item = self._items.popleft()
            if isinstance(item, bytes):
                self._output_bytes -= len(item)
            elif isinstance(item, str):
                self._messages -= 1
                self._message_bytes -= len(item)
            return item

    def _append(self, item: Item) -> None:
        # The link's thread sends until the queue is empty, so it needs no wake-up for each of a thousand lines.
        was_empty = not self._items
        self._items.append(item)
        if was_empty:
            self._wake()

    def _empty(self) -> None:
        self._items.clear()
        self._output_bytes = 0
        self._messages = 0
        self._message_bytes = 0
        self.needs_redraw = False


logger = Logger("dbg_agent.rank")

MAX_WARNINGS = 20
"""Maximum number of warnings that a rank writes to the job's stderr during a process's life, each only once."""


@dataclass(slots=True)
class ProgramState:
    """The state of the program apart from its present stop."""

    missing: DbgError | None = None
    """The reason why the most recent stop found no broker; None if it found one."""
    waits_at_stop: bool = False
    """Whether a stop waits, or has waited, for a broker that doesn't answer; the rank has reported this on stderr."""
    passed: str = ""
    """End of a sentence about the stop that was skipped because no broker answered; empty once the rank stops again."""
    exit_status: int | None = None
    last_words: tuple[str, tuple[Place, ...]] | None = None
    """An uncaught exception as text, and its traceback. The exception itself would keep all its frames alive."""


class HasAddress(Protocol):
    """An object that knows the rank's number and its address, which the broker may change."""

    @property
    def number(self) -> int:
        """The rank's global number."""

    @property
    def address(self) -> str:
        """The rank's address for terminals."""


class ToBroker:
    """The sender of the rank's messages to the broker; may be used from any thread."""

    def __init__(
        self, who: HasAddress, outgoing: Outgoing, call_later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._who = who
        self._outgoing = outgoing
        self.call_later = call_later
        """Call a function in the link's thread after some seconds; never if the link does not run."""
        self.warned: set[str] = set()
        """The warnings written to the job's stderr so far."""

    @property
    def number(self) -> int:
        """The rank's global number."""
        return self._who.number

    @property
    def address(self) -> str:
        """The rank's address for terminals."""
        return self._who.address

    def send(self, message: Message) -> None:
        """Queue a message, to be sent as soon as there is a connection."""
        from dbg_wire.codec import encode

        logger.debug("sending %s", LogForm(message))
        self._outgoing.put_message(encode(message))

    def publish(self) -> None:
        """Queue a report of this rank's state, which is made when it is sent."""
        self._outgoing.put_report()

    def report_loss(self, loss: Loss | None) -> None:
        """Report the keys that the debugger will never get, if any."""
        if loss is not None:
            self.send(
                clamp(Discarded, generation=loss.generation, offset=loss.offset, count=loss.count, reason=loss.reason)
            )

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""
        if text in self.warned or len(self.warned) >= MAX_WARNINGS:
            return
        self.warned.add(text)
        logger.info("warning: %s", text)
        write_stderr(f"{self.address}: {text}")
