"""A stock session as an agent would present it: what all kinds of sessions have in common.

Pure: bytes of the program's socket and messages of the broker go in, messages of an agent and bytes for the socket
come out. Time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire.codec import Input, Output
from dbg_wire.limits import MAX_DATA_BYTES
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Answer,
    Applied,
    Ask,
    Audience,
    Complete,
    Completions,
    Discarded,
    Interrupt,
    Kind,
    Message,
    Notice,
    Probe,
    PromptInfo,
    Pulse,
    RankReport,
    Register,
    Repaint,
    Report,
    SessionInfo,
    StopInfo,
)
from dbg_wire.records.ranks import Place, RankIdentity, RankProcess, RankState
from dbg_wire.records.record import fitted

JOB = "classic"
"""The job under which stock sessions are listed; a stock session doesn't know its job."""

STOP, SESSION = 0, 1
"""The one session of a connection, and the number of its stops: the end of a step looks like the next stop."""

QUIET_SECONDS = 0.5
"""Seconds after which a program that has not come back to its debugger counts as running; most steps end sooner."""

NO_PROCESS = RankProcess(pid=0, script="", directory="", release="0", python="0")
"""What is said of the process: a session doesn't know it."""

NOWHERE = Place(file="", line=0, function="")
"""The place of a program that doesn't tell where it is."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes to write to the program's socket."""

    data: bytes


SessionOutput = Message | Output | Write


class ClassicSession:
    """One stock session. ``due`` is the time at which :meth:`tick` is to be called next, None for never."""

    engine = ""
    no_screen = ""
    no_continue = ""

    def __init__(self, now: float) -> None:
        self.due: float | None = None
        self.is_proven = False
        """Whether the bytes received can only be a debugger's."""
        self._since = now
        self._running = False
        self._viewers = 0
        self._generation = 0
        self._received = 0
        self._sent = 0

    def registration(self, key: str, host: str, number: int, now: float) -> Register:
        """Return the first message of this session, an agent's with empty values for what a session can't tell."""
        return fitted(
            Register,
            minor=0,
            identity=fitted(RankIdentity, key=key, job=JOB, run="0", host=host, rank=number),
            placement=None,
            child=None,
            process=NO_PROCESS,
            ancestors=(),
            kernel="",
            report=self.report(now),
        )

    def report(self, now: float) -> RankReport:
        """Return all that is known of the session."""
        rows, columns = self._size()
        return fitted(
            RankReport,
            state=RankState.RUNNING if self._running else RankState.STOPPED,
            stop=fitted(
                StopInfo, number=STOP, reason="breakpoint", where=self._place(), age=now - self._since, thread=""
            ),
            session=fitted(SessionInfo, number=SESSION, engine=self.engine, rows=rows, columns=columns),
            stepping=self._running,
            generation=self._generation,
            applied=self._received,
            prompt=self._prompt_info(),
        )

    # ------------------------------------------------------------------------------------------------- what comes in

    def received(self, data: bytes, now: float) -> list[SessionOutput]:
        """Take bytes of the program's socket."""
        raise NotImplementedError

    def tick(self, now: float) -> list[SessionOutput]:
        """Do what is due by time alone."""
        if self.due is None or now < self.due:
            return []
        self.due = None
        return self._quiet(now)

    def message(self, message: Message, now: float) -> list[SessionOutput]:
        """Take a message of the broker to an agent."""
        if isinstance(message, Audience):
            return self._audience(message)
        if isinstance(message, Probe):
            return [Pulse(where=None)]
        if isinstance(message, Repaint):
            return self._repaint()
        if isinstance(message, Ask):
            return [self._answer(message)]
        if isinstance(message, Complete):
            return [Completions(request=message.request, matches=())]
        if isinstance(message, Interrupt):
            return [Notice(text="a stock session can't be interrupted: it listens only while its debugger waits")]
        return []

    def keys(self, frame: Input, now: float) -> list[SessionOutput]:
        """Take keys of the driver: each is written once, or reported as discarded."""
        end = frame.offset + len(frame.data)
        if frame.generation != self._generation:
            lost = len(frame.data)
            return [
                fitted(Discarded, generation=frame.generation, offset=end, count=lost, reason="the keyboard was taken")
            ]
        fresh = frame.data[max(0, self._received - frame.offset) :]
        if not fresh:
            return []
        self._received = end
        if (frame.stop, frame.session) != (STOP, SESSION):
            return [self._lost(len(fresh), "it was typed for another session")]
        return self._typed(fresh, now)

    # --------------------------------------------------------------------------------------------- what kinds differ in

    def _size(self) -> tuple[int, int]:
        return 0, 0

    def _place(self) -> Place:
        return NOWHERE

    def _prompt_info(self) -> PromptInfo | None:
        return None

    def _quiet(self, now: float) -> list[SessionOutput]:
        return self._set_running(True, now)

    def _repaint(self) -> list[SessionOutput]:
        return []

    def _newcomer(self) -> list[SessionOutput]:
        return []

    def _typed(self, data: bytes, now: float) -> list[SessionOutput]:
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------------------------- inner

    def _applied(self) -> SessionOutput:
        return fitted(Applied, generation=self._generation, offset=self._received)

    def _lost(self, count: int, reason: str) -> SessionOutput:
        return fitted(Discarded, generation=self._generation, offset=self._received, count=count, reason=reason)

    def _set_running(self, running: bool, now: float) -> list[SessionOutput]:
        if self._running == running:
            return []
        self._running, self._since = running, now
        return [Report(report=self.report(now))]

    def _audience(self, audience: Audience) -> list[SessionOutput]:
        if audience.generation != self._generation:
            self._generation, self._received = audience.generation, 0
        more = audience.viewers > self._viewers
        self._viewers = audience.viewers
        return self._newcomer() if more else []

    def _answer(self, ask: Ask) -> Answer:
        texts = {
            Action.CONTINUE: self.no_continue,
            Action.SCREEN: self.no_screen,
            Action.KILL: "a stock session doesn't say which process it is; attach and type q to end it",
            Action.INSPECT: "a stock debugger has no `inspect`",
            Action.BREAKPOINTS: "a stock debugger has no `breakpoints`",
            **dict.fromkeys(GUARD_ACTIONS, "a stock debugger has no agent that could do that"),
        }
        text = texts.get(ask.action, "a stock session answers no questions; attach to it")
        return Answer(request=ask.request, kind=Kind.ERROR, text=text)

    def _show(self, data: bytes) -> list[SessionOutput]:
        """Return the frames that show bytes to terminals; without a terminal the bytes are only counted."""
        frames: list[SessionOutput] = []
        for start in range(0, len(data), MAX_DATA_BYTES):
            piece = data[start : start + MAX_DATA_BYTES]
            if self._viewers:
                frames.append(Output(SESSION, self._sent, piece))
            self._sent += len(piece)
        return frames
