"""State of a terminal's connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from dbg_broker.feed import Feed
from dbg_broker.home.tokens import Bearer, Role
from dbg_broker.net.peer import Peer
from dbg_broker.terminals.answers import AnswerQueue


class PendingChanges:
    """Changes of ranks that one terminal has not received yet: of all listed ranks, or of its attached rank.

    A subscriber gets the snapshot first and then every change, without a gap. Only keys wait here: the state of a rank
    is looked up when the terminal can receive it.
    """

    def __init__(self) -> None:
        self._snapshot: list[str] = []
        self._in_snapshot = False
        self._changed: deque[str] = deque()
        self.place = 0
        """The terminal's read position in the feed of changes."""
        self.subscribed = False
        """Whether changes follow the snapshot."""

    def subscribe(self, keys: Iterable[str], place: int, *, once: bool) -> None:
        """Start a snapshot of these ranks, followed by the changes after a position in the feed.

        With ``once`` no changes follow. A new subscription replaces an earlier one.
        """
        # Reversed, because removing from the end of a list is cheap.
        self._snapshot = list(keys)[::-1]
        self._in_snapshot = True
        self._changed.clear()
        self.place = place
        self.subscribed = not once

    @property
    def has_snapshot(self) -> bool:
        """Whether a page of a snapshot is next."""
        return self._in_snapshot

    def next_listed(self) -> str | None:
        """Return the next rank of the snapshot, or None after the last one."""
        return self._snapshot.pop() if self._snapshot else None

    def end_page(self) -> bool:
        """End a page of the snapshot. Return True if it was the last one."""
        self._in_snapshot = bool(self._snapshot)
        return not self._in_snapshot

    def change(self, feed: Feed[str], seat: str | None) -> str | None:
        """Return the key of the next changed rank, or None if there is none or the snapshot is incomplete.

        Without a subscription, only the rank that the terminal is attached to can be returned.
        """
        if self._in_snapshot:
            return None
        if not self.subscribed:
            has_changed = seat is not None and feed.has_changed(seat, self.place)
            self.place = feed.end
            return seat if has_changed else None
        if not self._changed:
            self._changed.extend(feed.since(self.place))
            self.place = feed.end
        return self._changed.popleft() if self._changed else None


@dataclass(slots=True, eq=False)
class TerminalLink:
    """Connection of a terminal. ``name`` is None until its greeting; ``answers`` wait to be sent.

    ``listed`` has the ranks that were listed to a terminal whose token is for one job. It is None for a terminal that
    may see all ranks.
    """

    connection: Peer
    bearer: Bearer
    name: str | None = None
    changes: PendingChanges = field(default_factory=PendingChanges)
    answers: AnswerQueue = field(default_factory=AnswerQueue)
    listed: set[str] | None = None
    gathers: bool = False
    """Whether its answers wait for equal answers of other ranks, so that they are sent together."""
    is_supplied: bool = False
    """Whether the data that waits for it is being sent, in slices."""

    @property
    def role(self) -> Role:
        """Role that its token permits."""
        return self.bearer.role

    @property
    def number(self) -> int:
        """Number of the connection, which identifies this terminal in seats and questions."""
        return self.connection.number
