"""How a session ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dbg_wire.errors import DbgError, printable
from dbg_wire.ranks import Breakpoint, RankInfo


class End(enum.Enum):
    """The ways in which a session ends."""

    DETACHED = "detached"
    WENT_ON = "went on"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """How a session ended, and at which rank.

    ``error`` says why it failed, ``opened`` whether it began, ``loss`` which keys were discarded right before.
    ``breakpoints`` are those that people have set in the ranks of the session, ordered by file and line.
    """

    end: End
    rank: RankInfo
    opened: bool
    error: DbgError | None = None
    loss: str | None = None
    breakpoints: tuple[Breakpoint, ...] = ()


def how_it_ended(outcome: SessionOutcome) -> str:
    """Return how the session ended, in a few words without a full stop."""
    if outcome.error is not None:
        return str(outcome.error)
    return f"{printable(outcome.rank.address)} went on"
