"""What the broker keeps of each open connection: of a rank's, and of a terminal's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from dbg_broker.auth import Role
from dbg_broker.connection import Connection
from dbg_broker.fanout import RepaintPace
from dbg_broker.feed import Feed
from dbg_broker.pace import Pace
from dbg_broker.registry import Rank
from dbg_wire.messages import Answers


@dataclass(slots=True, eq=False)
class RankLink:
    """Hold a rank's connection; ``rank`` is None before it registered, and after a newer connection took over."""

    connection: Connection
    rank: Rank | None = None
    repaints: RepaintPace = field(default_factory=RepaintPace)


@dataclass(slots=True, eq=False)
class TerminalLink:
    """Hold a terminal's connection; ``name`` is None before it greeted. ``answers`` are pages still to be sent."""

    connection: Connection
    role: Role
    pace: Pace
    name: str | None = None
    feed: Feed = field(default_factory=Feed)
    answers: deque[Iterator[Answers]] = field(default_factory=deque)

    @property
    def number(self) -> int:
        """Return the connection's number, by which sessions and questions know this terminal."""
        return self.connection.number
