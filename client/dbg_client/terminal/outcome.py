"""How a session ended."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import Breakpoint, RankInfo

MAX_DEED = 600
"""Characters of what somebody else did: two names and a command."""


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
    ``breakpoints`` are those that people have set in the ranks of the session, ordered by file and line. ``ended_by``
    is what somebody else did that has ended the stop, in words, empty if nobody did. ``let_go`` is the exception after
    which a rank was kept that went on, empty for other stops.
    """

    end: End
    rank: RankInfo
    opened: bool
    error: DbgError | None = None
    loss: str | None = None
    breakpoints: tuple[Breakpoint, ...] = ()
    ended_by: str = ""
    let_go: str = ""


def how_it_ended(outcome: SessionOutcome) -> str:
    """Return how the session ended, in a few words without a full stop."""
    by = printable(outcome.ended_by, MAX_DEED)
    if outcome.error is not None:
        return f"{by}: {outcome.error}" if by else str(outcome.error)
    went_on = "went on"
    if outcome.let_go:
        # It goes on where the program has caught the exception, which can't be told from here.
        went_on = f"was let go after {printable(outcome.let_go)}, and has not ended yet"
    return f"{printable(outcome.rank.address)} {went_on}{f': {by}' if by else ''}"
