"""Reassembly of a rank's output. Missing bytes of a line debugger's log are replayed; a screen is repainted. Pure."""

from __future__ import annotations

import math

from dbg_client.seat.effects import Blank, Cut, Effects, LogText, Send, Show, Wake
from dbg_wire.codec import Output
from dbg_wire.limits import MAX_LOG
from dbg_wire.messages import Repaint, Replay
from dbg_wire.records.record import clamp

TAIL_BYTES = 4 * 1024
"""Bytes before the prompt that a new terminal requests from the log: some 100 lines of code. Users read no more."""

REPLAY_SECONDS = 1.0
"""Minimum seconds between two requests for a replay. Several round trips to any cluster take less."""

SLOWER = 4
"""Factor by which the wait after each request grows, because one frame of output takes 8 s on a line of 64 kbit/s."""

ON_ITS_WAY_SECONDS = 0.25
"""Seconds to wait before output counts as missing: the rank's report of the log's length may overtake the output."""

MAX_ASKS = 3
"""Maximum requests for missing bytes.

Then the terminal skips them, because a rank that writes fast may have removed them from its log.
"""

REPAINT_SECONDS = 0.5
"""Minimum number of seconds between two repaint requests, so that many gaps don't keep the rank busy with repaints."""


class SessionLog:
    """The output of one session in order; ``from_its_start`` means that this terminal saw the session begin."""

    def __init__(self, session: int, *, from_its_start: bool = False) -> None:
        self.session = session
        self._expected: int | None = 0 if from_its_start else None
        self._known = 0
        self._gap = False
        self._ask_after = -math.inf
        self._asks = 0
        self._asked_at = -math.inf
        self._ahead_at = 0
        self._ahead = b""
        self._answered = False

    @property
    def is_behind(self) -> bool:
        """Whether earlier bytes are still missing."""
        return self._gap

    def has_passed(self, offset: int) -> bool:
        """Return True if bytes beyond this offset have arrived."""
        return self._expected is not None and self._expected > offset

    def reach(self, length: int, now: float) -> Effects:
        """Record that the log is now ``length`` bytes long, and request missing bytes."""
        self._known = max(self._known, length)
        if self._expected is None:
            self._expected = max(0, length - TAIL_BYTES)
            return self._miss(now) if self._expected < length else []
        return [Wake(ON_ITS_WAY_SECONDS)] if not self._gap and self._falls_short(now) else []

    def resume(self, now: float) -> Effects:
        """Request the output that this terminal missed while its link was down."""
        if self._expected is None:
            return []
        self._end_gap()
        self._ask_after = now
        return self._ask(now)

    def output(self, frame: Output, now: float) -> Effects:
        """Handle bytes, in any order; return the effects that show them."""
        end = frame.offset + len(frame.data)
        self._known = max(self._known, end)
        if self._expected is None:
            self._expected = frame.offset
        if frame.offset > self._expected:
            self._keep_ahead(frame)
            return self._miss(now) if len(self._ahead) <= MAX_LOG else self._jump(now)
        if end <= self._expected:
            if not self._gap:
                return []
            # These bytes are before the gap, so a replay is under way on a slow line. Don't request or skip the gap.
            self._ask_after = max(self._ask_after, now + REPLAY_SECONDS)
            return [Wake(self._ask_after - now)]
        self._end_gap()
        effects = self._follow(frame.data[self._expected - frame.offset :])
        self._falls_short(now)
        return effects

    def tick(self, now: float, heard: float) -> Effects:
        """Request missing bytes again, or skip them; ``heard`` is the time of the rank's latest message."""
        if not self._gap or now < self._ask_after:
            return []
        if self._asks and heard < self._asked_at:
            # Nothing has arrived since the request, so the answer is late, not lost. Asking again would add load.
            self._ask_after = now + REPLAY_SECONDS
            return [Wake(REPLAY_SECONDS)]
        return self._ask(now) if self._asks < MAX_ASKS and not self._answered else self._jump(now)

    def _falls_short(self, now: float) -> bool:
        """Return True if bytes are known to be missing; if they don't arrive soon, :meth:`tick` requests them."""
        if self._expected is None or self._expected >= self._known:
            return False
        self._gap = True
        self._ask_after = max(self._ask_after, now + ON_ITS_WAY_SECONDS)
        return True

    def _miss(self, now: float) -> Effects:
        if self._gap:
            return []
        self._gap = True
        return self._ask(now)

    def _ask(self, now: float) -> Effects:
        if self._expected is None:
            return []
        if now < self._ask_after:
            return [Wake(self._ask_after - now)]
        self._asked_at = now
        self._ask_after = now + REPLAY_SECONDS * SLOWER**self._asks
        self._asks += 1
        return [Send(clamp(Replay, session=self.session, offset=self._expected))]

    def _keep_ahead(self, frame: Output) -> None:
        """Keep bytes after a gap: they are shown even if the rank no longer has the missing bytes."""
        if not self._ahead or frame.offset < self._ahead_at:
            # A frame that begins before the kept bytes is a replay. It begins at the start of the rank's present log,
            # so the rank no longer has the bytes before it. If no bytes are kept yet, the frame may be new output.
            self._answered = bool(self._ahead)
            self._ahead_at, self._ahead = frame.offset, frame.data
        elif frame.offset <= self._ahead_at + len(self._ahead):
            self._ahead = self._ahead[: frame.offset - self._ahead_at] + frame.data

    def _jump(self, now: float) -> Effects:
        effects = self._skip_gap()
        self._falls_short(now)
        return effects

    def _skip_gap(self) -> Effects:
        expected, ahead = self._expected or 0, self._ahead
        self._expected = self._ahead_at if ahead else self._known
        missing = self._expected - expected
        self._end_gap()
        return [Cut(missing), *(self._follow(ahead) if ahead else [])]

    def _end_gap(self) -> None:
        self._gap, self._asks = False, 0
        self._ahead, self._answered = b"", False

    def _follow(self, data: bytes) -> Effects:
        """Append the next bytes."""
        self._expected = (self._expected or 0) + len(data)
        return [LogText(data)] if data else []


class Drawing:
    """Screen output of one session after another; ``is_overdue`` means that a repaint must still be requested."""

    def __init__(self) -> None:
        self.is_overdue = False
        self._session: int | None = None
        self._expected: int | None = None
        self._hidden: int | None = None
        """The session whose output was partly hidden, because the client's text was shown instead."""
        self._asked: float | None = None

    def forget(self) -> None:
        """Forget the stream: the next bytes begin a new stream."""
        self._expected = self._session = self._hidden = None

    def uncover(self, session: int) -> bool:
        """Return True once if output of this session was hidden: the screen must be drawn again."""
        hidden, self._hidden = self._hidden, None
        return hidden == session

    def is_over(self, session: int) -> bool:
        """Return True if this session is earlier than the present session."""
        return self._session is not None and session < self._session

    def output(self, frame: Output, now: float, *, covered: bool) -> Effects:
        """Handle bytes; if some are missing, request a repaint. Nothing is drawn while the client's text is shown."""
        effects: Effects = []
        if frame.session != self._session:
            self._session, self._expected = frame.session, None
            effects.append(Blank())
        elif covered:
            # Don't draw this output over the client's text: it may come from an earlier step than the latest report.
            # Record that output was hidden, because PuDB's next drawing changes only parts of the screen.
            self._hidden, self._expected = frame.session, frame.offset + len(frame.data)
            return effects
        if self._expected is not None and frame.offset != self._expected:
            effects += [Blank(), *self.ask_repaint(now)]
        self._expected = frame.offset + len(frame.data)
        return [*effects, Show(frame.data)]

    def ask_repaint(self, now: float) -> Effects:
        """Request the whole screen, at once or, if another request was just made, a little later."""
        if self._asked is not None and now - self._asked < REPAINT_SECONDS:
            self.is_overdue = True
            return []
        self._asked, self.is_overdue = now, False
        return [Send(Repaint())]
