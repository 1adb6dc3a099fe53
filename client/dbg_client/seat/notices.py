"""State of a seat (one terminal at one rank) that is not in the rank's latest report, such as notices. Pure.

If typed keys had no effect, the user must not miss the notice that says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_client.seat.effects import Bell, Effects
from dbg_client.verbs.preferences import EngineSpec
from dbg_wire.errors import printable
from dbg_wire.messages import Mode, RankReport
from dbg_wire.records.ranks import Place, RankState

MAX_SHOWN = 40
"""Maximum number of characters of discarded keys that a notice repeats."""

NOTICE_SECONDS = 8.0
"""Seconds for which the status line shows a notice: time to look down and read a sentence."""

END_SECONDS = 5.0
"""Seconds within which the end of a stop is attributed to another user's action; a later end has another reason."""


@dataclass(slots=True)
class Outage:
    """Times when parts of the path to the rank were lost; None for a part that works."""

    link_down_since: float | None = None
    link_down_reason: str = ""
    broker_silent_since: float | None = None
    absent_since: float | None = None
    """Time when the broker came back without the rank; None after the rank has reconnected to the broker."""
    lost_since: float | None = None
    """Time when the rank's connection to the broker ended."""

    @property
    def is_over(self) -> bool:
        """Whether this terminal is connected to the broker, and the broker to the rank."""
        return (self.link_down_since, self.absent_since, self.lost_since) == (None, None, None)

    def clear_rank(self) -> None:
        """Forget what was missing between the broker and the rank."""
        self.lost_since = self.absent_since = None


@dataclass(slots=True)
class StepState:
    """Progress of a running rank; ``pulse`` is its place in the code, from its latest reply to a probe."""

    since: float | None = None
    """Time when the rank resumed; None while it is stopped."""
    pulse: Place | None = None
    waits_in: str = ""
    """Collective that the rank's step is in, according to its latest reply to a probe."""
    heard: float = 0.0
    """Time of the latest message from the rank itself."""

    def stop(self) -> None:
        """Reset the progress, because the rank does not run."""
        self.since = self.pulse = None
        self.waits_in = ""


@dataclass(slots=True)
class StopOutcome:
    """Facts about the end of the stop; empty until the stop ends."""

    went_on_at: float | None = None
    by: str = ""
    """Sentence on the other user who ended the stop, else empty."""
    was_crash: bool = False
    """Whether the rank was kept after a crash, and was resumed."""


@dataclass(slots=True)
class AttachRequest:
    """Settings with which this terminal requests a seat: keyboard or not, screen size, debugger, and frame."""

    mode: Mode
    rows: int
    columns: int
    colors: int
    spec: EngineSpec
    frame: str
    cropped: bool = False
    """Whether the debugger's screen was larger than the terminal at the latest check."""


def why_blank(address: str, report: RankReport | None) -> str:
    """Return the placeholder text for the screen while no debugger is open, or "" if one is."""
    if report is None:
        return ""
    if report.stop is not None:
        if report.stepping:
            return f"{address} is running to the end of a step.\nIts debugger reappears here afterwards."
        # If other threads keep the interpreter busy, PuDB takes seconds to open.
        return f"{address} is stopped.\nIts debugger is opening." if report.session is None else ""
    if report.state is RankState.HELD:
        return f"{address} is held: it waits for other ranks."
    left = []
    if report.breakpoints:
        left.append(f"{report.breakpoints} breakpoint{'s' if report.breakpoints > 1 else ''} left")
    if report.queued:
        left.append(f"{report.queued} more thread{'s' if report.queued > 1 else ''} stopped")
    if not left:
        return f"{address} is running."
    return f"{address} is running, {' and '.join(left)}.\nIts debugger reappears here at the next stop."


def missing_on_the_way(away: Outage, now: float) -> tuple[str, float, str] | None:
    """Return which part of the connection to the rank is missing, its seconds, and the cause; None if all is well."""
    if away.link_down_since is not None:
        return "broker gone", now - away.link_down_since, f"reconnecting; keys are kept ({away.link_down_reason})"
    if away.broker_silent_since is not None:
        return "broker silent", now - away.broker_silent_since, "no data from the broker; keys are kept"
    if away.absent_since is not None:
        return "away", now - away.absent_since, "the broker is back, the rank has not reconnected yet; keys are kept"
    if away.lost_since is not None:
        return "lost", now - away.lost_since, "its connection ended; it may reconnect"
    return None


HAS_KEYBOARD = "you have the keyboard"

ONLY_WATCH = "you only watch"
"""Answer to keys of a terminal that does not have the keyboard."""


def who_types(driver: str | None, *, driving: bool, how_to_take: str) -> str:
    """Return a sentence on the user who has the keyboard; ``driving`` means that this terminal has it."""
    return HAS_KEYBOARD if driving else f"{printable(driver) if driver else 'nobody'} types{how_to_take}"


def discarded(text: str, reason: str) -> str:
    """Return a notice that typed text will have no effect, with the reason."""
    return f"discarded: '{printable(text, MAX_SHOWN)}' ({printable(reason)})"


class Notices:
    """The one notice that is shown now; a newer notice replaces it.

    ``how_to_take`` is appended to notices for users without the keyboard.
    """

    def __init__(self, how_to_take: str) -> None:
        self.how_to_take = how_to_take
        self._text = self._loss = self._ending = ""
        self._until = self._ends_until = 0.0

    def ends_stop(self, text: str, now: float) -> None:
        """Record another user's action that ends the stop."""
        self._ending, self._ends_until = text, now + END_SECONDS

    def take_ending(self, now: float) -> str:
        """Return and forget the sentence on the other user who has just ended the stop; empty if there is none."""
        ending, self._ending = self._ending, ""
        return ending if now < self._ends_until else ""

    def note(self, text: str, now: float) -> None:
        """Show a notice for NOTICE_SECONDS."""
        self._text, self._until = text, now + NOTICE_SECONDS

    def warn(self, text: str, now: float) -> None:
        """Show a message of the rank or the broker, after a notice of discarded keys if one is still shown."""
        loss = self.unread_loss(now)
        self.note(f"{loss}; {text}" if loss else text, now)

    def forget(self) -> None:
        """Remove the notice, so that the status line can show more important news."""
        self._text = ""

    def shown(self, now: float) -> str | None:
        """Return the notice that is still to be shown, or None."""
        return self._text if self._text and now < self._until else None

    def discarded(self, data: bytes, reason: str, now: float) -> Effects:
        """Show a notice of typed keys that will have no effect, if there are any."""
        if not data:
            return []
        self._loss = discarded(data.decode("utf-8", "backslashreplace"), reason)
        self.note(self._loss, now)
        return [Bell()]

    def unread_loss(self, now: float) -> str | None:
        """Return the notice of discarded keys if it is still to be shown, or None."""
        return self._loss if self._loss and (self.shown(now) or "").startswith(self._loss) else None
