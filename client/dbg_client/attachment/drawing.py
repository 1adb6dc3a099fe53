"""The bytes of a debugger that draws a screen: whether all have come, and when to ask for a repaint. Pure."""

from __future__ import annotations

from dbg_client.attachment.effects import Blank, Effects, Send, Show
from dbg_wire.codec import Output
from dbg_wire.messages import Repaint

REPAINT_SECONDS = 0.5
"""Seconds between two repaints asked for, so that a stream with many holes doesn't keep the rank busy with them."""


class Drawing:
    """Follow one session after another; ``owed`` tells that a repaint is to be asked for a little later."""

    def __init__(self) -> None:
        self.owed = False
        self._session: int | None = None
        self._expected: int | None = None
        self._hidden: int | None = None
        """The session of which some output was not shown, since the client's text stood in its place."""
        self._asked: float | None = None

    def forget(self) -> None:
        """Forget the stream: the next bytes begin another one."""
        self._expected = self._session = self._hidden = None

    def uncover(self, session: int) -> bool:
        """Return, once, whether some output of that session was not shown, so that the screen must be drawn anew."""
        hidden, self._hidden = self._hidden, None
        return hidden == session

    def is_over(self, session: int) -> bool:
        """Return whether that session came before the present one."""
        return self._session is not None and session < self._session

    def output(self, frame: Output, now: float, *, covered: bool) -> Effects:
        """Take bytes; if some are missing, ask for a repaint. Nothing is drawn while the client's text covers them."""
        effects: Effects = []
        if frame.session != self._session:
            self._session, self._expected = frame.session, None
            effects.append(Blank())
        elif covered:
            # It would be drawn into the client's text. A report made late may already tell of the step after the one
            # that this output ended, and what PuDB draws next builds on this output.
            self._hidden, self._expected = frame.session, frame.offset + len(frame.data)
            return effects
        if self._expected is not None and frame.offset != self._expected:
            effects += [Blank(), *self.ask_repaint(now)]
        self._expected = frame.offset + len(frame.data)
        return [*effects, Show(frame.data)]

    def ask_repaint(self, now: float) -> Effects:
        """Ask for the whole screen, at once or, if that was done just now, a little later."""
        if self._asked is not None and now - self._asked < REPAINT_SECONDS:
            self.owed = True
            return []
        self._asked, self.owed = now, False
        return [Send(Repaint())]
