"""What a rank has to say to the broker, in order and within bounds, whatever the network does.

Filled from any thread, emptied by the link's. While the link is down nothing is kept: a registration restates all.

Here and in what leads here, locks are of the kind that a thread may take twice: any allocation may collect garbage and
run a finalizer of the program's, which may print, and any instruction of the main thread may be followed by a signal
handler.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Union

from dbg_wire.codec import join_outputs
from dbg_wire.limits import MAX_LINK_BACKLOG, MIB

MAX_MESSAGES = 4096
"""Control messages that may wait; beyond it the broker reads nothing, and the link starts afresh."""

MAX_MESSAGE_BYTES = 16 * MIB
"""Characters of these messages: sixteen of the longest, of which a rank has one at a time but for crowds that ask."""


class ReportNow:
    """Stand for a report to be made when its turn comes, so that the last one sent is never an outdated one."""


REPORT_NOW: Final = ReportNow()

Item = Union[str, bytes, ReportNow]  # noqa: UP007 - evaluated at import, on 3.10 too


class Outgoing:
    """Keep text frames, binary frames and report marks in order.

    Screen output beyond the bound is dropped whole, and ``starved`` stays true until somebody has it redrawn. Messages
    beyond theirs are never dropped alone, since the broker would believe what is true no more: nothing is kept then,
    and ``start_afresh`` is called, for a new connection that begins with all that is true.
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
        self.starved = False

    def open(self) -> None:
        """Keep what is put from here on, for a new connection."""
        with self._lock:
            self._empty()
            self._open = True

    def close(self) -> None:
        """Keep nothing until the next connection."""
        with self._lock:
            self._empty()
            self._open = False

    def put_report(self) -> None:
        """Have a report sent after what waits already."""
        with self._lock:
            if not self._open or (self._items and self._items[-1] is REPORT_NOW):
                return
            self._append(REPORT_NOW)

    def put_message(self, text: str) -> None:
        """Have a control message sent, or the link start afresh if far too many wait."""
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
        """Have output sent, or drop all that waits if it has become too much; return whether it is sent."""
        with self._lock:
            if not self._open or self.starved:
                return False
            if self._output_bytes + len(frame) > MAX_LINK_BACKLOG:
                for _ in range(len(self._items)):
                    item = self._items.popleft()
                    if not isinstance(item, bytes):
                        self._items.append(item)
                self._output_bytes = 0
                self.starved = True
                return False
            last = self._items[-1] if self._items else None
            joined = join_outputs(last, frame) if isinstance(last, bytes) else None
            if joined is not None and isinstance(last, bytes):
                # A line of output is printed in pieces, and thousands of lines as one frame cost no more than one line.
                self._items[-1] = joined
                self._output_bytes += len(joined) - len(last)
            else:
                self._output_bytes += len(frame)
                self._append(frame)
        return True

    def pop(self) -> Item | None:
        """Return what is to be sent next, or None if nothing waits."""
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
        # Whoever empties this goes on until nothing is left, and must not be woken by each of a thousand lines.
        was_empty = not self._items
        self._items.append(item)
        if was_empty:
            self._wake()

    def _empty(self) -> None:
        self._items.clear()
        self._output_bytes = 0
        self._messages = 0
        self._message_bytes = 0
        self.starved = False
