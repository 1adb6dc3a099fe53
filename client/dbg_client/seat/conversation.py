"""One terminal at one line debugger: its prompt, the reply to it, and the queue for the next prompt. Pure.

A prompt has a number and accepts one reply, so a reply can be sent again after a broken link without being applied
twice. Lines that are entered while no prompt is open wait for the next prompt of the same stop.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from dbg_client.seat.effects import Bell, Completed, Effects, Note, Send
from dbg_client.seat.notices import discarded
from dbg_client.seat.output import SessionLog
from dbg_wire.codec import Output
from dbg_wire.limits import MAX_INPUT_PENDING, MAX_TEXT
from dbg_wire.messages import (
    Complete,
    Completions,
    Interrupt,
    Message,
    Notice,
    PromptInfo,
    PromptState,
    RankReport,
    Replied,
    Reply,
)
from dbg_wire.records.ranks import LINE_ENGINE
from dbg_wire.records.record import clamp

NO_KEYBOARD = "you did not get the keyboard"
"""Reason for discarding keys that were typed after the keyboard was requested."""

END_OF_INPUT = "EOF"
"""Reply for Ctrl-D: pdb's command for it."""

_FOR_STARTUP = frozenset({PromptState.COMMAND, PromptState.COMMANDS, PromptState.MORE})


@dataclass(frozen=True, slots=True)
class _Given:
    """The most recent reply to a prompt, as it was sent."""

    prompt: PromptInfo
    generation: int
    text: str
    log: SessionLog | None


class Conversation:
    """The state of one terminal at one line debugger, and the decisions that follow from it.

    ``startup`` contains the replies to the first prompts that this terminal may answer; a sent reply is removed.
    """

    def __init__(self, startup: deque[str] | None = None) -> None:
        self.generation: int | None = None
        self.keyboard_is_due = False
        """Whether the user has requested the keyboard and the broker has not answered yet; lines wait until then."""
        self._startup = deque() if startup is None else startup
        self._log: SessionLog | None = None
        self._log_before: SessionLog | None = None
        self._stop: int | None = None
        self._prompt: PromptInfo | None = None
        self._given: _Given | None = None
        self._settled = True
        self._held: deque[str] = deque()
        self._request = 0

    @property
    def prompt(self) -> PromptInfo | None:
        """The prompt that still waits for a reply; None until all output before it is shown."""
        given = self._given
        if self._log is not None and self._log.is_behind:
            return None
        if self._prompt is None or (given is not None and given.prompt.number == self._prompt.number):
            return None
        return self._prompt

    @property
    def unseen_reply(self) -> str:
        """The most recent reply, preceded by its prompt; empty once the log contains the reply."""
        given = self._given
        if given is None or self._log is None or given.log is not self._log:
            return ""
        return "" if self._log.has_passed(given.prompt.offset) else f"{given.prompt.text}{given.text}\n"

    @property
    def held(self) -> int:
        """Number of lines that wait for the next prompt."""
        return len(self._held)

    # ---------------------------------------------------------------------------------------------------- the rank

    def report(self, report: RankReport, generation: int | None, now: float, *, anew: bool) -> Effects:
        """Handle the rank's report; ``anew`` is set after a new seat, because earlier messages may have been missed."""
        effects: Effects = []
        stop = report.stop.number if report.stop else None
        if stop != self._stop:
            effects += self._drop_held("the stop ended")
            self._stop = stop
        self.generation = generation
        if generation is not None:
            self.keyboard_is_due = False
        effects += self._settle(report, anew=anew)
        self._prompt = report.prompt
        if report.session is not None and report.session.engine == LINE_ENGINE:
            effects += self._follow_log(report.session.number, anew=anew, now=now)
        return effects + self._answer_prompt()

    def message(self, message: Message) -> Effects:
        """Handle a message of the rank about its prompt."""
        if isinstance(message, Replied):
            return self._replied(message)
        if isinstance(message, Completions):
            return [Completed(message.request, message.matches)]
        if isinstance(message, Notice):
            return [Note(message.text)]
        return []

    def follows(self, session: int) -> bool:
        """Return True if ``session`` is the session of the shown log, or the session before it."""
        return self._log_of(session) is not None

    def output(self, frame: Output, now: float) -> Effects:
        """Handle bytes of the log."""
        log = self._log_of(frame.session)
        return log.output(frame, now) + self._answer_prompt() if log is not None else []

    def tick(self, now: float, heard: float) -> Effects:
        """Do the work that is due at this time; ``heard`` is the time of the rank's latest message."""
        return self._log.tick(now, heard) + self._answer_prompt() if self._log is not None else []

    # ---------------------------------------------------------------------------------------------------- the user

    def enter(self, text: str, at: PromptInfo | None) -> Effects:
        """Handle an entered line or block; ``at`` is the prompt before it, or None."""
        if len(text) > MAX_TEXT:
            return [Bell(), Note(f"a line of {len(text):,} characters is too long; at most {MAX_TEXT:,} are allowed")]
        if self.generation is None and not self.keyboard_is_due:
            return [Bell()]
        text = text.encode("utf-8", "replace").decode()
        prompt = self.prompt
        if self.generation is None or prompt is None or at is None or at.number != prompt.number:
            return self._hold(text) + self._answer_prompt()
        return self._reply(prompt, text)

    def end_of_input(self) -> Effects:
        """Answer Ctrl-D on an empty line."""
        prompt = self.prompt
        if prompt is None or self.generation is None:
            return [Bell()]
        return self._reply(prompt, END_OF_INPUT)

    def interrupt(self) -> Effects:
        """Interrupt running code, or a command that asks for more input, and drop the lines that were typed ahead."""
        if self.generation is None:
            return [Bell(), *self._drop_held("interrupted")]
        if self.prompt is not None and self.prompt.state is PromptState.COMMAND:
            return []
        return [*self._drop_held("interrupted"), Send(Interrupt(generation=self.generation))]

    def keyboard_refused(self) -> Effects:
        """Drop the lines that waited for the keyboard, because this terminal does not get it."""
        self.keyboard_is_due = False
        return self._drop_held(NO_KEYBOARD)

    def complete(self, line: str, start: int, end: int) -> tuple[int, Effects]:
        """Request completions of ``line[start:end]``; return the number of the request and the effects."""
        self._request += 1
        prompt = self.prompt
        if prompt is None or self.generation is None or len(line) > MAX_TEXT:
            return self._request, []
        asked = clamp(
            Complete,
            request=self._request,
            prompt=prompt.number,
            generation=self.generation,
            line=line,
            start=start,
            end=end,
        )
        return self._request, [Send(asked)]

    # ------------------------------------------------------------------------------------------------ what follows

    def _follow_log(self, session: int, *, anew: bool, now: float) -> Effects:
        length = self._prompt.offset if self._prompt else None
        if self._log is None or self._log.session != session:
            was_there = self._log is not None and not anew
            # A report may overtake output: the end of the former session's log may still arrive.
            self._log_before, self._log = self._log, SessionLog(session, from_its_start=was_there)
            anew = False
        if length is not None:
            return self._log.reach(length, now)
        return self._log.resume(now) if anew else []

    def _log_of(self, session: int) -> SessionLog | None:
        return next((log for log in (self._log, self._log_before) if log is not None and log.session == session), None)

    def _settle(self, report: RankReport, *, anew: bool) -> Effects:
        given = self._given
        if given is None or self._settled:
            return []
        still_open = report.prompt is not None and report.prompt.number == given.prompt.number
        if report.generation <= given.generation:
            # No other terminal has had the keyboard since this reply was sent. If the prompt is closed, the reply has
            # arrived; otherwise it may still arrive.
            self._settled = not still_open
            return self._send(given) if anew and still_open and given.generation == self.generation else []
        self._settled = True
        if still_open:
            self._given = None
        # Another terminal has had the keyboard since then, and may have answered the prompt.
        return _discarded(given.text, "the keyboard changed hands", perhaps=not still_open)

    def _replied(self, message: Replied) -> Effects:
        given = self._given
        if given is None or message.prompt != given.prompt.number:
            return []
        self._settled = True
        if message.taken:
            return []
        self._given = None
        return _discarded(given.text, message.reason) + self._drop_held("the line before it was discarded")

    def _answer_prompt(self) -> Effects:
        """Reply with a waiting line, if a prompt is open and this terminal has the keyboard."""
        prompt = self.prompt
        if prompt is None or self.generation is None:
            return []
        if self._startup and prompt.state in _FOR_STARTUP:
            return self._reply(prompt, self._startup.popleft())
        # A line that was typed before a question appeared is not an answer to it.
        if self._held and prompt.state is not PromptState.CONFIRM:
            return self._reply(prompt, self._held.popleft())
        return []

    def _hold(self, text: str) -> Effects:
        if self._stop is None:
            return _discarded(text, "the rank is not stopped")
        if sum(map(len, self._held)) + len(text) > MAX_INPUT_PENDING:
            return _discarded(text, "too much input is waiting already")
        self._held.append(text)
        return []

    def _drop_held(self, reason: str) -> Effects:
        left = "; ".join(self._held)
        self._held.clear()
        return _discarded(left, reason) if left else []

    def _reply(self, prompt: PromptInfo, text: str) -> Effects:
        self._given = _Given(prompt, self.generation or 0, text, self._log)
        self._settled = False
        return self._send(self._given)

    def _send(self, given: _Given) -> Effects:
        return [Send(clamp(Reply, prompt=given.prompt.number, generation=given.generation, text=given.text))]


def _discarded(text: str, reason: str, *, perhaps: bool = False) -> Effects:
    return [Bell(), Note(discarded(text, f"perhaps: {reason}" if perhaps else reason))]
