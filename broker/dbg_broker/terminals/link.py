"""What the broker keeps of the connection of a terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from dbg_broker.feed import Feed
from dbg_broker.home.tokens import Bearer, Role
from dbg_broker.net.peer import Peer
from dbg_broker.terminals.answers import AnswerQueue


class PendingChanges:
    """What one terminal is still to be told of the list of ranks, or of the one rank where it sits.

    A subscriber gets the snapshot first, then every change, with no gap between. Only keys wait here: the state of a
    rank is looked up when the terminal can take it.
    """

    def __init__(self) -> None:
        self._snapshot: list[str] = []
        self._in_snapshot = False
        self._changed: deque[str] = deque()
        self.place = 0
        """Its place in the feed of changes."""
        self.subscribed = False
        """Whether changes follow the snapshot."""

    def subscribe(self, keys: Iterable[str], place: int, *, once: bool) -> None:
        """Begin a snapshot of these ranks, to be followed by the changes after a place in the feed.

        With ``once`` no changes follow. It takes the place of an earlier subscription.
        """
        # Reversed, as taking from the end of a list is cheap.
        self._snapshot = list(keys)[::-1]
        self._in_snapshot = True
        self._changed.clear()
        self.place = place
        self.subscribed = not once

    @property
    def has_snapshot(self) -> bool:
        """Tell whether a page of a snapshot is next."""
        return self._in_snapshot

    def next_listed(self) -> str | None:
        """Return the next rank of the snapshot, or None after the last one."""
        return self._snapshot.pop() if self._snapshot else None

    def end_page(self) -> bool:
        """End a page of the snapshot, and tell whether it was the last one."""
        self._in_snapshot = bool(self._snapshot)
        return not self._in_snapshot

    def change(self, feed: Feed[str], seat: str | None) -> str | None:
        """Return a rank to tell of, or None; none before the snapshot is complete.

        Without a subscription it is the rank where the terminal sits.
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
    """A terminal's connection; ``name`` is None before it greeted. ``answers`` are still to be sent.

    ``told`` are the ranks that the list has named to it, if its token is for one job; None if it may see all.
    """

    connection: Peer
    bearer: Bearer
    name: str | None = None
    changes: PendingChanges = field(default_factory=PendingChanges)
    answers: AnswerQueue = field(default_factory=AnswerQueue)
    told: set[str] | None = None
    gathers: bool = False
    """Whether its answers wait for equal ones."""
    is_supplied: bool = False
    """Whether what waits for it is being sent, in slices."""

    @property
    def role(self) -> Role:
        """Return what its token lets it be."""
        return self.bearer.role

    @property
    def number(self) -> int:
        """Return the connection's number, by which seats and questions know this terminal."""
        return self.connection.number
