"""The state of one seat beside the rank's last report, and the notices that the user sees for a while. Pure.

A notice of keys without effect must not be missed.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_client.seat.effects import Bell, Effects
from dbg_client.verbs.preferences import Wish
from dbg_wire.errors import printable
from dbg_wire.messages import Mode, RankReport
from dbg_wire.records.ranks import Place, RankState

MAX_SHOWN = 40
"""Characters of discarded keys that are repeated."""

NOTICE_SECONDS = 8.0
"""Seconds for which a notice stands in the status line: time to look down and read a sentence."""

END_SECONDS = 5.0
"""Seconds in which a stop ends by what somebody else did; one that ends later has another reason."""


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
        """Whether the broker has the rank's connection."""
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
        """Forget the pulse: the rank does not run."""
        self.since = self.pulse = None
        self.waits_in = ""


@dataclass(slots=True)
class Ending:
    """How the stop has ended; empty while it has not."""

    went_on_at: float | None = None
    by: str = ""
    """Sentence on the other user who ended the stop, else empty."""
    was_crash: bool = False
    """Whether the stop was a kept crash, which was let go."""


@dataclass(slots=True)
class Offer:
    """Request of this viewer: the keyboard or not, a debugger, a frame, and a screen of this size."""

    mode: Mode
    rows: int
    columns: int
    colors: int
    wish: Wish
    frame: str
    cropped: bool = False
    """Whether the debugger's screen was larger at the last look."""


def why_blank(address: str, report: RankReport | None) -> str:
    """Return what stands on the screen while no debugger does; empty while one does."""
    if report is None:
        return ""
    if report.stop is not None:
        if report.stepping:
            return f"{address} is running to the end of a step.\nIts debugger comes back here then."
        # Where other threads keep the interpreter busy, the import of PuDB alone takes seconds.
        return f"{address} is stopped.\nIts debugger opens." if report.session is None else ""
    if report.state is RankState.HELD:
        return f"{address} is held: it waits for other ranks."
    left = []
    if report.breakpoints:
        left.append(f"{report.breakpoints} breakpoint{'s' if report.breakpoints > 1 else ''} left")
    if report.queued:
        left.append(f"{report.queued} more thread{'s' if report.queued > 1 else ''} stopped")
    if not left:
        return f"{address} is running."
    return f"{address} is running, {' and '.join(left)}.\nIts debugger comes back here at the next stop."


def missing_on_the_way(away: Absence, now: float) -> tuple[str, float, str] | None:
    """Return what is missing on the way to the rank, for how many seconds, and what that means; None if nothing is."""
    if away.link_down_since is not None:
        return "broker gone", now - away.link_down_since, f"reconnecting; keys are kept ({away.link_down_reason})"
    if away.broker_silent_since is not None:
        return "broker silent", now - away.broker_silent_since, "nothing comes from the broker; keys are kept"
    if away.absent_since is not None:
        return "away", now - away.absent_since, "the broker is back, the rank has not called it yet; keys are kept"
    if away.lost_since is not None:
        return "lost", now - away.lost_since, "its connection ended; it may come back"
    return None


HAS_KEYBOARD = "you have the keyboard"

ONLY_WATCH = "you only watch"
"""Answer to keys of a terminal that does not have the keyboard."""


def who_types(driver: str | None, *, driving: bool, how_to_take: str) -> str:
    """Return a sentence on the user who has the keyboard now; ``driving`` says that it is this terminal."""
    return HAS_KEYBOARD if driving else f"{printable(driver) if driver else 'nobody'} types{how_to_take}"


def discarded(text: str, reason: str) -> str:
    """Return that something typed will have no effect, and why."""
    return f"discarded: '{printable(text, MAX_SHOWN)}' ({printable(reason)})"


class Notices:
    """The one notice that stands now; a newer one replaces it. ``how_to_take`` ends those of a keyboard not had."""

    def __init__(self, how_to_take: str) -> None:
        self.how_to_take = how_to_take
        self._text = self._loss = self._ending = ""
        self._until = self._ends_until = 0.0

    def ends_stop(self, text: str, now: float) -> None:
        """Take note of what somebody else did that ends the stop."""
        self._ending, self._ends_until = text, now + END_SECONDS

    def take_ending(self, now: float) -> str:
        """Return, once, the sentence on the other user who ends the stop now, else an empty text."""
        ending, self._ending = self._ending, ""
        return ending if now < self._ends_until else ""

    def say(self, text: str, now: float) -> None:
        """Show a notice for a while."""
        self._text, self._until = text, now + NOTICE_SECONDS

    def tell(self, text: str, now: float) -> None:
        """Show what the rank or the broker says, beside a notice of keys without effect that stands."""
        loss = self.unread_loss(now)
        self.say(f"{loss}; {text}" if loss else text, now)

    def forget(self) -> None:
        """Show no notice any more: other news matters more now."""
        self._text = ""

    def shown(self, now: float) -> str | None:
        """Return the notice that is still to be shown."""
        return self._text if self._text and now < self._until else None

    def discarded(self, data: bytes, reason: str, now: float) -> Effects:
        """Tell of typed keys that will have no effect, if there are any."""
        if not data:
            return []
        self._loss = discarded(data.decode("utf-8", "backslashreplace"), reason)
        self.say(self._loss, now)
        return [Bell()]

    def unread_loss(self, now: float) -> str | None:
        """Return what is still to be shown of keys that were discarded."""
        return self._loss if self._loss and (self.shown(now) or "").startswith(self._loss) else None
