"""What the broker keeps of each open connection: of a rank's, and of a terminal's."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from dbg_broker.feed import Feed
from dbg_broker.home.bearer import ANY_RANK, Bearer, Role
from dbg_broker.net.peer import Peer
from dbg_broker.quotas import TokenBucket
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.answers import AnswerQueue
from dbg_wire.messages import Ask, Finding, Message

REPAINT_SECONDS = 0.1
"""Least seconds between two repaints of a rank: ten screens a second are as many as a person can follow."""


class RankPeer(Protocol):
    """The other end of a rank's link: its agent's connection, or what stands in for an agent."""

    number: int
    peer: str

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; it replaces a waiting one of the same name.

        Return False if it had no room.
        """

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a message of which ``frame`` is the form on the wire, as :meth:`send_message` does."""

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message that many ranks are sent, as :meth:`send_message` does."""

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Send a frame of keys unless less than ``reserve`` bytes of room would be left; tell whether it was taken."""

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close with a code and a sentence."""

    def abort(self) -> None:
        """End the connection at once."""

    def seconds_since_ack(self) -> float:
        """Return for how long the peer's kernel has said nothing; 0 if that can't be told."""


@dataclass(slots=True, eq=False)
class RankLink:
    """A rank's connection; ``rank`` is None before it registered, and after a newer connection took over.

    If a guard is at the other end, ``guard_of`` is the key of
    its rank, ``finding`` is what it has said last, and ``asks`` are the questions that it has not answered.
    """

    connection: RankPeer
    rank: RankRecord | None = None
    guard_of: str | None = None
    finding: Finding | None = None
    asks: dict[int, Ask] = field(default_factory=dict)
    repaints: TokenBucket = field(default_factory=lambda: TokenBucket(0.0, 1 / REPAINT_SECONDS, 1))
    repaint_is_due: bool = False
    bearer: Bearer = ANY_RANK


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
        self.subscribed = self.folds = False
        """Whether changes follow the snapshot, and whether its ranks come folded."""

    def subscribe(self, keys: Iterable[str], place: int, *, once: bool, fold: bool = False) -> None:
        """Begin a snapshot of these ranks, to be followed by the changes after a place in the feed.

        With ``once`` no changes follow. It takes the place of an earlier subscription.
        """
        # Reversed, as taking from the end of a list is cheap.
        self._snapshot = list(keys)[::-1]
        self._in_snapshot = True
        self._changed.clear()
        self.place = place
        self.subscribed, self.folds = not once, fold

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
