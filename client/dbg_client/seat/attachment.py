"""State machine of one terminal at one rank: its knowledge, and the consequences of each event. Pure.

Methods for events receive the time (monotonic seconds) and return effects. The caller carries out the effects in order.
"""

from __future__ import annotations

from collections import deque

from dbg_client.core.errors import RankEnded, RankStayedAway, why_refused
from dbg_client.seat.conversation import NO_KEYBOARD, Conversation
from dbg_client.seat.effects import Bell, Blank, Effects, Finish, Open, Send, Wake
from dbg_client.seat.notices import (
    HAS_KEYBOARD,
    ONLY_WATCH,
    AttachRequest,
    Notices,
    Outage,
    StepState,
    StopOutcome,
    who_types,
    why_blank,
)
from dbg_client.seat.output import Drawing
from dbg_client.seat.unacknowledged_input import PendingInput, UnacknowledgedInput
from dbg_client.verbs.preferences import ANY_ENGINE, EngineSpec
from dbg_wire.codec import Input, Output
from dbg_wire.libraries import collective_of
from dbg_wire.limits import MAX_INPUT_PENDING
from dbg_wire.messages import (
    Applied,
    Attach,
    Detach,
    Discarded,
    Interrupt,
    Message,
    Mode,
    Notice,
    ProbeReply,
    RankReport,
    Refusal,
    RefusalCode,
    Report,
    Resize,
    Seat,
    Take,
)
from dbg_wire.records.ranks import CRASH, LINE_ENGINE, LIVE_STATES, RankInfo, RankState
from dbg_wire.records.record import clamp

CTRL_C = b"\x03"

LOST_SECONDS = 10.0
"""Maximum time for a rank to reconnect after its connection ended, in seconds. A link reconnects within a few seconds.
A rank that is still away is dead, or its network is broken; the client can't distinguish the two."""

NEXT_STOP_SECONDS = 0.5
"""Maximum time for a resumed rank without breakpoints to stop again, in seconds; then the session ends. In a loop the
next ``set_trace()`` follows at once."""

LET_GO_SECONDS = 3.0
"""Maximum time for a rank to exit after its kept crash was resumed, in seconds; then the session ends. Exit callbacks
may be slow, and a program that called ``post_mortem()`` for a caught exception does not exit."""

_ANSWERS_TO_ATTACH = frozenset({RefusalCode.NO_SUCH_RANK, RefusalCode.ROLE, RefusalCode.FULL, RefusalCode.GONE})


class Attachment:
    """The state of one terminal at one rank, and the decisions that follow from it.

    ``link_up``, ``link_down``, ``rank_listed`` and ``message`` handle events from the broker, ``keys``, ``take`` and
    ``resize`` events from the user. ``tick`` is called every second. ``prefix`` is the escape key's name, for notices.
    """

    def __init__(
        self,
        rank: RankInfo,
        mode: Mode,
        size: tuple[int, int],
        *,
        colors: int,
        prefix: str = "",
        spec: EngineSpec = ANY_ENGINE,
        frame: str = "",
        startup: deque[str] | None = None,
    ) -> None:
        self.rank = rank
        self.conversation = Conversation(startup)
        self.report: RankReport | None = None
        self.driver: str | None = None
        self.away = Outage()
        self.motion = StepState()
        self.ending = StopOutcome()
        self.opened = self._seated = self._asked = False
        self._offer = AttachRequest(mode, *size, colors, spec, frame)
        self._keys = UnacknowledgedInput()
        self._early = b""
        self._drawing = Drawing()
        self._notices = Notices(f"; {prefix} w takes the keyboard" if prefix else "")

    @property
    def cropped(self) -> bool:
        """Whether the debugger's screen is larger than this terminal's space for it."""
        session = self.report.session if self.report else None
        if session is None or session.engine == LINE_ENGINE:
            return False
        return session.rows > self._offer.rows or session.columns > self._offer.columns

    @property
    def driving(self) -> bool:
        """Whether this terminal has the keyboard."""
        return self._keys.generation is not None

    @property
    def may_type(self) -> bool:
        """Whether keys are accepted: this terminal has the keyboard, or has requested it and waits for the answer."""
        return self.driving or self.conversation.keyboard_is_due

    @property
    def _waits_for_keyboard(self) -> bool:
        return self.may_type and not self.driving

    @property
    def engine(self) -> str | None:
        """The debugger that is open, or None."""
        return self.report.session.engine if self.report and self.report.session else None

    @property
    def size(self) -> tuple[int, int]:
        """The last (rows, columns) offered to the rank."""
        return self._offer.rows, self._offer.columns

    @property
    def blank_text(self) -> str:
        """Text on the screen while no debugger is shown, else empty."""
        return why_blank(self.rank.address, self.report)

    def notice(self, now: float) -> str | None:
        """Return the notice that is still to be shown, or None."""
        return self._notices.shown(now)

    def unread_loss(self, now: float) -> str | None:
        """Return the notice of discarded keys if it is still shown; a session that ends now passes it on."""
        return self._notices.unread_loss(now)

    def note(self, text: str, now: float) -> None:
        """Show a notice for NOTICE_SECONDS."""
        self._notices.note(text, now)

    # ------------------------------------------------------------------------------------------------ the broker's side

    def attach(self) -> Effects:
        """Ask for a seat at the rank."""
        self._asked = True
        # After a broken link the terminal requests the seat that it had, not the one that it requested first.
        back_to = Mode.DRIVE if self.driving else Mode.TAKE if self._waits_for_keyboard else Mode.WATCH
        attach = clamp(
            Attach,
            key=self.rank.key,
            mode=back_to if self.opened else self._offer.mode,
            rows=self._offer.rows,
            columns=self._offer.columns,
            colors=self._offer.colors,
            engine=self._offer.spec.asked,
            fallback_engine=self._offer.spec.default,
            resume=self._keys.generation,
            # If the debugger is already open, its user may have selected another frame, so don't request one again.
            frame="" if self.opened else self._offer.frame,
        )
        return [Send(attach)]

    def link_up(self, now: float) -> None:
        """Record that the broker is back; its list of ranks follows."""
        self.away.link_down_since = None
        self.away.absent_since = now

    def link_down(self, reason: str, now: float) -> None:
        """Record that the broker is gone, or that another attempt to reach it failed."""
        if self.away.link_down_since is None:
            self.away.link_down_since = now
            self._notices.forget()
        self.away.link_down_reason = reason
        self._seated = self._asked = False
        self.away.clear_rank()

    def rank_listed(self, listed: RankInfo | None, now: float) -> Effects:
        """Handle the broker's complete list. ``listed`` is the rank's entry, or None if the rank is not in the list."""
        if listed is None:
            return []
        self.rank = listed
        if listed.state is RankState.EXITED:
            return [self._finish_with(listed, now)]
        if listed.state is RankState.LOST:
            self.away.lost_since = now if self.away.lost_since is None else self.away.lost_since
            return []
        self.away.clear_rank()
        if listed.state in LIVE_STATES and not self._seated and not self._asked:
            return self.attach()
        return []

    def message(self, message: Message, now: float) -> Effects:
        """Handle a message about the rank."""
        if isinstance(message, Seat):
            return self._on_seat(message, now)
        if isinstance(message, Refusal):
            return self._on_refusal(message, now)
        if not self._seated:
            return []  # about the rank of this terminal's former seat
        if isinstance(message, (Report, Applied, Discarded, ProbeReply)):
            self.motion.heard = now  # the rank itself sends these
        if isinstance(message, Report):
            return self._on_report(message.report, now)
        if isinstance(message, Applied):
            self._keys.acknowledge(message.generation, message.offset)
        elif isinstance(message, Discarded):
            lost = self._keys.discard(message.generation, message.offset, message.count)
            return self._notices.discarded(lost, message.reason, now)
        elif isinstance(message, ProbeReply):
            self.motion.pulse = message.where
            steps = self.report is not None and self.report.stop is not None and self.report.stepping
            self.motion.waits_in = collective_of(message.frames) if steps else ""
        elif isinstance(message, Notice):
            if message.ends_stop:
                self._notices.ends_stop(message.text, now)
            if self.engine != LINE_ENGINE:
                self._notices.warn(message.text, now)
        return self.conversation.message(message)

    def output(self, frame: Output, now: float) -> Effects:
        """Handle the debugger's output: bytes of a log, or of a screen. A gap in a screen is repaired by a repaint."""
        if not self._seated or self._drawing.is_over(frame.session):
            return []
        self.motion.heard = now
        # A line debugger may print after its stop has ended, such as that a temporary breakpoint was removed.
        if self.engine == LINE_ENGINE or (self.engine is None and self.conversation.follows(frame.session)):
            return self.conversation.output(frame, now)
        return self._drawing.output(frame, now, covered=bool(self.blank_text))

    def ask_repaint(self, now: float) -> Effects:
        """Request the whole screen: at once, or a little later if another request was just made.

        Does nothing for a line debugger, which has no screen.
        """
        return [] if self.engine == LINE_ENGINE else self._drawing.ask_repaint(now)

    def tick(self, now: float) -> Effects:
        """Do the work that is due at this time."""
        if self.ending.went_on_at is not None and now - self.ending.went_on_at >= self._patience:
            return [Finish(None)]
        if self.away.lost_since is not None and now - self.away.lost_since > LOST_SECONDS:
            return [Finish(RankStayedAway(self.rank.address))]
        if self._may_ask_again():
            return self.attach()
        if not self._seated:
            return []
        return self.ask_repaint(now) if self._drawing.is_overdue else self.conversation.tick(now, self.motion.heard)

    # -------------------------------------------------------------------------------------------------- the user's side

    def keys(self, data: bytes, now: float) -> Effects:
        """Handle typed keys: send them at once, or keep them while the seat, the link or the keyboard is awaited."""
        if not self.opened or self._waits_for_keyboard:
            if len(self._early) + len(data) > MAX_INPUT_PENDING:
                return self._notices.discarded(data, "too much input is waiting already", now)
            self._early += data
            return []
        if not self.driving:
            return self.refuse(now)
        stop = self.report.stop if self.report else None
        if self.report is None or stop is None:
            if self.report is not None and CTRL_C in data and self._keys.generation is not None:
                return [Send(Interrupt(generation=self._keys.generation))]
            self.note(f"{self.rank.address} is not stopped; keys are not kept, but Ctrl-C breaks in", now)
            return [Bell()]
        session = self.report.session
        typed = self._keys.add(data, stop.number, session.number if session else None)
        if typed is None:
            return self._notices.discarded(data, "too much input is waiting already", now)
        return self._send_keys((typed,))

    def refuse(self, now: float) -> Effects:
        """Notify a user who types without the keyboard that this has no effect."""
        self.note(f"{ONLY_WATCH}{self._notices.how_to_take}", now)
        return [Bell()]

    def take_unsent(self) -> bytes:
        """Return the keys that no debugger has received yet, and forget them."""
        return self._keys.abandon_unsent()

    def take(self, now: float) -> Effects:
        """Request the keyboard."""
        if self.driving:
            self.note(HAS_KEYBOARD, now)
            return []
        if not self._seated:
            self.note("the keyboard can be taken when the rank is back", now)
            return [Bell()]
        if self._waits_for_keyboard:
            return []
        self.conversation.keyboard_is_due = True
        return [Send(Take())]

    def resize(self, rows: int, columns: int, now: float) -> Effects:
        """Offer another size to the rank."""
        self._offer.rows, self._offer.columns = rows, columns
        if not self._seated and not self._asked:
            return []
        offer = Send(Resize(rows=rows, columns=columns))
        session = self.report.session if self.report else None
        is_known = session is not None and (session.rows, session.columns) == (rows, columns)
        # If the driver sends a new size, the rank draws the whole screen. The rank ignores the size of a watcher, and a
        # size that it already has, such as after a window was made smaller and larger again. In these two cases a
        # repaint must be requested.
        if self.driving and not is_known:
            return [offer]
        return [offer, *([Blank()] if self._begin_cropping() else []), *self.ask_repaint(now)]

    def leave(self) -> Effects:
        """Give up the seat; the rank stays as it is."""
        return [Send(Detach())] if self._seated or self._asked else []

    # ----------------------------------------------------------------------------------------------------- what follows

    @property
    def _patience(self) -> float:
        return LET_GO_SECONDS if self.ending.was_crash else NEXT_STOP_SECONDS

    def _may_ask_again(self) -> bool:
        return self.opened and not self._seated and not self._asked and self.away.is_over

    def _on_seat(self, seat: Seat, now: float) -> Effects:
        if seat.rank.key != self.rank.key:
            return []
        first = not self.opened
        had, before = self.driving, self.driver
        self.opened, self._asked = True, False
        self.motion.heard, self.rank, self.driver = now, seat.rank, seat.driver
        self.away.clear_rank()
        if not self._seated:
            self._drawing.forget()
        effects: Effects = [Open()] if first else []
        left = self._begin_generation(seat)
        is_news = (self.driving, self.driver) != (had, before)
        if (not self.driving and self._offer.mode is not Mode.WATCH) if first else is_news:
            self.note(who_types(self.driver, driving=self.driving, how_to_take=self._notices.how_to_take), now)
        # A newer notice replaces an older one. The notice of lost keys matters more than the notice about the driver.
        effects += self._notices.discarded(left, "perhaps: the keyboard changed hands", now)
        # `_on_report` must not send waiting keys now, because they must follow the keys that `_send_again` repeats.
        self._seated = False
        effects += self._on_report(seat.report, now, anew=True)
        self._seated = True
        if seat.rank.state is RankState.EXITED:
            effects.append(self._finish_with(seat.rank, now))
        effects += self._send_again(now)
        if self._waits_for_keyboard:
            return effects  # another terminal caused this message; our request for the keyboard is answered later
        early, self._early = self._early, b""
        return effects + (self.keys(early, now) if early else [])

    def _begin_generation(self, seat: Seat) -> bytes:
        """Use the seat's generation; return keys of the former generation that the rank may or may not have applied."""
        report, mine = seat.report, self._keys.generation
        self._keys.acknowledge(report.generation, report.applied)
        if seat.generation == mine:
            return b""
        settled = report.applied if report.generation == seat.generation else 0
        # Another terminal typed in between, so the rank no longer reports which of these keys it applied.
        return self._keys.start(seat.generation, settled)

    def _send_again(self, now: float) -> Effects:
        stop = self.report.stop if self.report else None
        stale = self._keys.abandon_but(stop.number if stop else None)
        return self._notices.discarded(stale, "the stop ended", now) + self._send_keys(self._keys.unsettled)

    def _send_keys(self, keys: tuple[PendingInput, ...]) -> Effects:
        generation = self._keys.generation
        if generation is None or not self._seated:
            return []
        return [
            Send(Input(typed.session, typed.stop, generation, typed.offset, typed.data))
            for typed in keys
            if typed.session is not None
        ]

    def _on_report(self, report: RankReport, now: float, *, anew: bool = False) -> Effects:
        before, self.report = self.report, report
        self._keys.acknowledge(report.generation, report.applied)
        self._keep_time(report, now)
        talk = self.conversation.report(report, self._keys.generation, now, anew=anew)
        if report.stop is None:
            effects = talk + self._notices.discarded(self._keys.abandon_unsent(), "the stop ended", now)
            if report.state is RankState.RUNNING and not report.breakpoints and not report.queued:
                return effects + self._go_on(before, now)
            self._stay()
            was_blank = before is not None and before.stop is None and before.state is report.state
            return effects if was_blank else [*effects, Blank(self.blank_text)]
        self._stay()
        effects, session = talk, report.session
        is_hidden = session is not None and not self.blank_text and self._drawing.uncover(session.number)
        if is_hidden or (before is not None and before.stop is None):
            effects.append(Blank())
            if session is not None:
                effects += self.ask_repaint(now)
        if before is not None and before.stop is not None and before.stop.number != report.stop.number:
            effects += self._notices.discarded(self._keys.abandon_unsent(), "the stop ended", now)
        if report.session is not None and report.session.engine != LINE_ENGINE:
            opened = self._keys.open_session(report.stop.number, report.session.number)
            effects += self._send_keys(opened)
        return effects + self._fit(before, report, now)

    def _go_on(self, before: RankReport | None, now: float) -> Effects:
        """End the session; if its stop has just ended, first wait for another stop or the rank's exit."""
        if before is None:
            return [Finish(None)]
        if self.ending.went_on_at is not None:
            return []
        self.ending.went_on_at, self.ending.by = now, self._notices.take_ending(now)
        if before.stop is not None and before.stop.reason == CRASH:
            self.ending.was_crash = True
            self.note("resumed; waiting for its exit", now)
        return [Wake(self._patience)]

    def _stay(self) -> None:
        """Record that the rank is stopped, or that something can still stop it."""
        self.ending = StopOutcome()

    def _finish_with(self, ended: RankInfo, now: float) -> Finish:
        """Return the end of the session after its rank has exited.

        If the rank was resumed before it exited, report only that it was resumed. If it exited by an exception, always
        report the exit: a kept crash that is resumed ends in this way.
        """
        went_on = self.ending.went_on_at is not None and not (ended.end.error and not ended.end.signal)
        if self.ending.went_on_at is None:
            self.ending.by = self._notices.take_ending(now)
        return Finish(None if went_on else RankEnded(ended))

    def _fit(self, before: RankReport | None, report: RankReport, now: float) -> Effects:
        """Clear the screen if its size has changed, because parts of the old screen could stay visible."""
        crops = self._begin_cropping()
        old, new = before.session if before else None, report.session
        if old is None or new is None or (old.rows, old.columns) == (new.rows, new.columns):
            return []
        return [] if self.driving and not crops else [Blank(), *self.ask_repaint(now)]

    def _begin_cropping(self) -> bool:
        """Record whether the screen is cropped; return True if it is cropped now or was at the last check."""
        was, self._offer.cropped = self._offer.cropped, self.cropped
        return was or self._offer.cropped

    def _keep_time(self, report: RankReport, now: float) -> None:
        if report.state is not RankState.RUNNING:
            self.motion.stop()
        elif self.motion.since is None:
            self.motion.since = now

    def _on_refusal(self, refusal: Refusal, now: float) -> Effects:
        if refusal.code == RefusalCode.NOT_ATTACHED:
            return []  # the answer to a Detach from a rank that had already exited
        if refusal.code == RefusalCode.ROLE:
            self._notices.how_to_take = ""
        # A broker of another release may refuse an attach with an unknown code. No other answer to the attach follows.
        is_answer = refusal.code in _ANSWERS_TO_ATTACH or (not self.opened and refusal.code != RefusalCode.NOT_DRIVING)
        if not self._asked or not is_answer:
            return self._refused_meanwhile(refusal, now)
        self._asked = False
        if refusal.code == RefusalCode.ROLE and self._waits_for_keyboard:
            return self._lose_turn(refusal.text, now) + self.attach()
        if refusal.code == RefusalCode.ROLE and self._offer.mode is Mode.DRIVE:
            self._offer.mode = Mode.WATCH
            return self.attach()
        if not self.opened:
            return [Finish(why_refused(self.rank.address, refusal))]
        # The rank isn't back yet, or its seats are full. Attach again after the rank's next change or at the next tick.
        self.note(refusal.text, now)
        return []

    def _refused_meanwhile(self, refusal: Refusal, now: float) -> Effects:
        """Handle a refusal of a request other than an attach."""
        # `not_driving` is the answer to earlier keys, and never to a request for the keyboard.
        if self._waits_for_keyboard and refusal.code != RefusalCode.NOT_DRIVING:
            return self._lose_turn(refusal.text, now)
        self.note(refusal.text, now)
        return [Bell()]

    def _lose_turn(self, why: str, now: float) -> Effects:
        """Report that this terminal does not get the keyboard, and discard the keys that waited for it."""
        early, self._early = self._early, b""
        effects = self._notices.discarded(early, NO_KEYBOARD, now) + self.conversation.keyboard_refused()
        self._notices.warn(why, now)
        return effects or [Bell()]
