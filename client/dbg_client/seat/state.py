"""What one viewer knows of a rank beside its last report: the way to it, its moves, the end of its stop. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_client.verbs.preferences import Wish
from dbg_wire.messages import Mode
from dbg_wire.records.ranks import Place


@dataclass(slots=True)
class Absence:
    """Since when something is missing on the way to the rank; None for what is there."""

    link_down_since: float | None = None
    link_down_reason: str = ""
    broker_silent_since: float | None = None
    absent_since: float | None = None
    """When the broker came back, as long as the rank has not called it."""
    lost_since: float | None = None
    """When the rank's connection to the broker ended."""

    @property
    def is_over(self) -> bool:
        """Tell whether the broker has the rank's connection."""
        return (self.link_down_since, self.absent_since, self.lost_since) == (None, None, None)

    def clear_rank(self) -> None:
        """Forget what was missing between the broker and the rank."""
        self.lost_since = self.absent_since = None


@dataclass(slots=True)
class Motion:
    """How the rank moves, as far as it tells by its pulse."""

    since: float | None = None
    """When it went on; None while it stands."""
    pulse: Place | None = None
    waits_in: str = ""
    """The collective that the rank's step is in, as far as its last pulse tells."""
    heard: float = 0.0
    """When the rank itself has said something last."""

    def stands(self) -> None:
        """Take note that the rank does not run."""
        self.since = self.pulse = None
        self.waits_in = ""


@dataclass(slots=True)
class Ending:
    """How the stop has ended; empty while it has not."""

    went_on_at: float | None = None
    by: str = ""
    """What somebody else did that has ended the stop, in words; empty if nobody did."""
    let_go: str = ""
    """The exception after which the rank was kept, if that stop has just ended: ``ValueError: bad batch``."""


@dataclass(slots=True)
class Offer:
    """What this viewer asks of the rank: the keyboard or not, a debugger, a frame, and a screen of this size."""

    mode: Mode
    rows: int
    columns: int
    colors: int
    wish: Wish
    frame: str
    cropped: bool = False
    """Whether the debugger's screen was larger at the last look."""
