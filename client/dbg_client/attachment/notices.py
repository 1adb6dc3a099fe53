"""Notices that the user sees for a while. A notice of keys without effect must not be missed. Pure."""

from __future__ import annotations

from dbg_client.attachment.effects import Bell, Effects
from dbg_client.attachment.sentences import discarded

NOTICE_SECONDS = 8.0
"""Seconds for which a notice stands in the status line: time to look down and read a sentence."""


END_SECONDS = 5.0
"""Seconds in which a stop ends by what somebody else did; one that ends later has another reason."""


class Notices:
    """The one notice that stands now; a newer one replaces it."""

    def __init__(self) -> None:
        self._text = self._loss = self._ending = ""
        self._until = self._ends_until = 0.0

    def ends_stop(self, text: str, now: float) -> None:
        """Take note of what somebody else did that ends the stop."""
        self._ending, self._ends_until = text, now + END_SECONDS

    def take_ending(self, now: float) -> str:
        """Return what somebody else did by which a stop ends now, once; empty if nobody did."""
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
