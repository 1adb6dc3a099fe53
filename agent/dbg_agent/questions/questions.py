"""A rank's answers when a terminal asks many ranks at once: values, commands, stacks, and the end of a move.

Work on the program's objects runs in the stopped thread, because current device, grad mode and streams of a training
framework belong to the thread. Methods run in the link's thread unless their docstring names another thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbg_agent.debuggers.position import place_at
from dbg_agent.frames.stacks import FrameAt, NoSuchFrame, find_frame, frames_of, users_frame
from dbg_agent.process.imports import loaded
from dbg_agent.process.threads import own_thread
from dbg_agent.questions.break_in import AT_ONCE_SECONDS
from dbg_agent.questions.stop_work import StopWork, not_answered
from dbg_agent.settings import FORBIDDEN
from dbg_agent.stop.inbox import MOVES, Move, OpenDebugger, ResumeThread, RunJob, StepRequest
from dbg_agent.stop.stops import CRASHED_CANT_MOVE, StopPhase
from dbg_wire.errors import error_line
from dbg_wire.messages import Action, Ask, DetailLevel, Kind, answer_to
from dbg_wire.records.inspection import ScreenSize
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import clamp
from dbg_wire.records.samples import RankSample, SampleQuestion

if TYPE_CHECKING:
    from dbg_agent.debuggers.debuggers import Debuggers
    from dbg_agent.debuggers.engine import Engine
    from dbg_agent.debuggers.position import FrameSelector, Position
    from dbg_agent.evidence.sampling import Sampler
    from dbg_agent.link.fork_safety import ForkSafety
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.numbers.watch import Watch
    from dbg_agent.questions.break_in import BreakIn
    from dbg_agent.questions.evaluate import Evaluated
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.interruptible import Interruptible
    from dbg_agent.stop.stops import Halt, Stops
    from dbg_agent.values.inspector import Inspector
    from dbg_wire.records.evidence import EvidenceRecord

STILL_SECONDS = 0.1
"""A rank that has been at the same place for this many seconds is treated as standing still. Reading its evidence may
then hold the GIL for longer, because that does not delay the program."""

NEEDED = (
    "dbg_agent.questions.passing_pdb",
    "dbg_agent.breakpoints.startup_stops",
    "dbg_agent.evidence.gather",
    "dbg_agent.questions.background",
    "dbg_agent.questions.evaluate",
    "dbg_agent.evidence.sampling",
    "dbg_agent.numbers.watch",
    "dbg_agent.values.describe",
    "dbg_agent.values.inspector",
    "dbg_wire.records.evidence",
    "dbg_wire.records.inspection",
)
"""The modules that answers import when a question needs them; a rank that gets no questions does not load them."""


@dataclass(kw_only=True, eq=False)
class Questions:
    """The broker's questions to one rank, and the rank's answers."""

    may_exec: bool
    broker: ToBroker
    stops: Stops
    inbox: Inbox
    interruptible: Interruptible
    halt: Halt
    view: FrameSelector
    position: Position
    debuggers: Debuggers
    break_in: BreakIn
    kill: Callable[[], None]
    watch: Callable[[], Watch]

    def __post_init__(self) -> None:
        self._work = StopWork(
            stops=self.stops,
            inbox=self.inbox,
            interruptible=self.interruptible,
            position=self.position,
            call_later=self.broker.call_later,
            answer=self.answer,
        )
        self._inspector: Inspector | None = None
        """Answers the questions of IDEs; made at the first question."""
        self._sampler: Sampler | None = None
        """Samples the rank on request; made at the first question."""

    def on_ask(self, ask: Ask) -> None:
        """Answer now, or when the stopped thread has done the work; raise nothing."""
        try:
            _METHODS[ask.action](self, ask)
        except Exception as error:
            # The link must stay alive, because other questions and the rank's stop need it.
            self.answer(ask, Kind.ERROR, not_answered(error))

    def prepare(self, fork_safety: ForkSafety) -> None:
        """Import the modules that answers need; they may be unreachable once the program has another root directory.

        Runs in the stopped thread, which may be inside the import of a module that these modules need. A fork in
        another thread waits until the current import has ended, because a child would wait forever for a module that is
        being imported.
        """
        for name in NEEDED:
            fork_safety.before_fork()
            try:
                with suppress(Exception):  # a question that needs the module is answered with the error
                    import_module(name)
            finally:
                fork_safety.after_fork()

    def answer(self, ask: Ask, kind: Kind, text: str, **more: Any) -> None:
        """Send an answer; may be called from any thread."""
        self.broker.send(answer_to(ask.request, kind, text, **more))

    # ---------------------------------------------------------------------------------------------- single questions

    def _kill(self, ask: Ask) -> None:
        self.answer(ask, Kind.VALUE, "killed")
        # The link's thread must still send the answer, so another thread kills the process.
        own_thread(self.kill, "dbg-agent-kill").start()

    def _continue(self, ask: Ask) -> None:
        stop = self._work.halted(ask)
        if stop is not None:
            self._work.put(ask, stop, ResumeThread(lambda: self.answer(ask, Kind.VALUE, "continued")))

    def _release(self, ask: Ask) -> None:
        stop, _ = self.stops.current
        if stop is None or not self.stops.is_hold:
            self.answer(ask, Kind.ERROR, "not held")
        else:
            self._work.put(ask, stop, ResumeThread(lambda: self.answer(ask, Kind.VALUE, "released")))

    def _screen(self, ask: Ask) -> None:
        stop = self._work.halted(ask)
        if stop is None:
            return
        debuggers = self.debuggers
        if self.stops.current[1] is None and not debuggers.terminal.viewers:
            size = ask.inquiry if isinstance(ask.inquiry, ScreenSize) else ScreenSize()
            debuggers.terminal.resize(size.rows, size.columns)
        self.inbox.put(stop, OpenDebugger(debuggers.preferred()))
        self._work.put(ask, stop, RunJob(lambda: self._answer_screen(ask)))

    def _answer_screen(self, ask: Ask) -> None:
        engine = self.debuggers.last
        if engine is None:
            self.answer(ask, Kind.ERROR, "no debugger can be opened in this rank")
        else:
            self.answer(ask, Kind.VALUE, engine.name, rows=engine.screen())

    def _call_guard(self, ask: Ask) -> None:
        """Make the guard connect; the broker then sends it the question."""
        if ask.withdrawn:
            return
        # The module is loaded only if a guard was started.
        guard = loaded("dbg_agent.guard.rank_side")
        if not self.may_exec:
            self.answer(ask, Kind.ERROR, FORBIDDEN)
            return
        if guard is not None:
            guard.allow_tracing()
        if guard is None or not guard.call():
            self.answer(ask, Kind.ERROR, "it has no guard; install() starts one unless DBG_GUARD=0 or guard=False")

    def _where(self, ask: Ask) -> None:
        stops, position = self.stops, self.position
        is_stopped = stops.is_halted and not stops.is_busy and not stops.is_unreported
        state = stops.state_word if is_stopped else "running"
        frames = position.stack()
        age, at_least = position.age()
        answer = answer_to(
            ask.request,
            Kind.VALUE,
            state,
            frames=frames,
            age=age,
            at_least=at_least,
            threads=position.threads() if ask.threads else (),
            rows=self._evidence(ask, state, is_still=(age or 0.0) >= STILL_SECONDS),
        )
        self.broker.send(answer)

    def _evidence(self, ask: Ask, state: str, *, is_still: bool) -> tuple[EvidenceRecord, ...]:
        if ask.look is DetailLevel.STACK:
            return ()
        halted = self.stops.owner if state != "running" else None
        try:
            from dbg_agent.evidence.gather import evidence_of

            return evidence_of(ask.look, halted=halted, is_still=is_still)
        except Exception as error:
            # The answer can still contain the rank's place, and the link must stay alive, so the error is sent as part
            # of the answer.
            from dbg_wire.records.evidence import SourceSeen

            limitation = f"the evidence can't be read ({error_line(error)})"
            return (clamp(SourceSeen, library="dbg-agent", limitation=limitation),)

    def _sample(self, ask: Ask) -> None:
        if not isinstance(ask.inquiry, SampleQuestion):
            self.answer(ask, Kind.ERROR, "the question doesn't contain the sampling time")
        elif ask.inquiry.seconds <= 0:
            self.answer(ask, Kind.VALUE, "", rows=(RankSample(clock=time.time_ns() // 1000),))
        else:
            if self._sampler is None:
                from dbg_agent.evidence.sampling import Sampler

                self._sampler = Sampler(self.broker.call_later)
            self._sampler.start(ask, ask.inquiry, self.answer)

    def _numbers(self, ask: Ask) -> None:
        question = ask.inquiry if isinstance(ask.inquiry, NumbersQuestion) else NumbersQuestion()
        if question.at_line and sys.version_info < (3, 12):
            self.answer(ask, Kind.ERROR, "before Python 3.12 only `run --stop-at nan --eval` can watch a line")
        elif question.is_watch and not question.at_line and loaded("torch") is None:
            self.answer(ask, Kind.ERROR, "the program has not imported torch")
        else:
            self.answer(ask, Kind.VALUE, "", rows=self.watch().answer(question))

    # ------------------------------------------------------------------------------------------ in the stopped thread

    def _eval(self, ask: Ask) -> None:
        if ask.live and self.stops.current[0] is None:
            asked = time.monotonic()
            self.break_in.ask(
                ask, lambda frame: self._work.in_time(ask, asked, lambda: self._evaluate_live(ask, frame))
            )
        else:
            self._work.at_stop(ask, lambda: self._evaluate(ask, self.view.find))

    def _inspect(self, ask: Ask) -> None:
        if ask.live and self.stops.current[0] is None:
            from dbg_agent.questions.background import answer_source, source_question

            if (question := source_question(ask)) is not None:
                answer_source(ask, question, self.answer)
                return
        self._work.at_stop(ask, partial(self._answer_inspection, ask))

    def _answer_inspection(self, ask: Ask) -> None:
        from dbg_agent.values.inspector import inspected

        if self._inspector is None:
            from dbg_agent.values.inspector import Inspector

            self._inspector = Inspector(self.interruptible, self.view.frames, self.halt.uncaught)
        at = self._found(ask, self.view.find)
        if at is not None:
            kind, text, rows = inspected(self._inspector, ask, at, self.debuggers.locals_of(at[0]))
            self.answer(ask, kind, text, rows=rows, frame=place_at(at))

    def forget(self) -> None:
        """Forget all values of the stop; runs in the stopped thread."""
        if self._inspector is not None:
            self._inspector.forget()

    def _evaluate_live(self, ask: Ask, frame: FrameType) -> None:
        frames = frames_of(frame)
        self._evaluate(ask, lambda frame: find_frame(frames, frame) if frame else users_frame(frames))

    def _evaluate(self, ask: Ask, find: Callable[[str], FrameAt | None]) -> None:
        # The import is not at the module's top, where the link's thread would run it. That thread would wait if the
        # stopped thread is inside the import of a module that `evaluate` needs.
        from dbg_agent.questions.evaluate import evaluate

        at = self._found(ask, find)
        if at is not None:
            self._answer_evaluated(ask, evaluate(ask, at[0], self.debuggers.locals_of(at[0])), at)

    def _found(self, ask: Ask, find: Callable[[str], FrameAt | None]) -> FrameAt | None:
        """Return the frame that a question is about; if there is none, answer and return None."""
        try:
            at = find(ask.frame)
        except NoSuchFrame as error:
            self.answer(ask, Kind.ERROR, str(error))
            return None
        if at is None:
            self.answer(ask, Kind.RUNNING, "running")
        return at

    def _answer_evaluated(self, ask: Ask, evaluated: Evaluated, at: FrameAt) -> None:
        """Answer with the outcome of an expression or a command."""
        place = place_at(at)
        # If a user has selected another frame in the open debugger, a name may have another value there. So the answer
        # names that frame.
        is_moved = not ask.frame and self.halt.frame is not None and not self.view.is_usual(at)
        places_moved_to = (place,) if is_moved else ()
        self.answer(ask, evaluated.kind, evaluated.text, frames=places_moved_to, frame=place, digest=evaluated.digest)

    def _breakpoints(self, ask: Ask) -> None:
        if ask.withdrawn:
            return
        from dbg_agent.questions.background import answer_breakpoints

        answer_breakpoints(self.debuggers.workplace.breakpoints, ask, self.answer, self._show_breakpoints_soon)

    def _show_breakpoints_soon(self) -> None:
        """Make the stop draw the changed breakpoints, if there is a stop."""
        stop = self.stops.current[0]
        if stop is not None:
            self.inbox.put(stop, RunJob(self.debuggers.breakpoints_changed))

    def _command(self, ask: Ask) -> None:
        move = MOVES.get(ask.text.strip())
        if move is None or ask.frame:
            self._work.at_stop(ask, partial(self._run_command, ask))
            return
        stop = self._work.halted(ask)
        if stop is None:
            return
        if self.halt.crash is not None and move != "continue":
            self.answer(ask, Kind.ERROR, CRASHED_CANT_MOVE)
            return
        self._put_move(ask, stop, StepRequest(move), "")

    def _put_move(self, ask: Ask, stop: int, request: StepRequest, printed: str) -> None:
        # Most ranks of a set have no debugger open yet. A move needs one, and leaves it open for the next move.
        self.inbox.put(stop, OpenDebugger(self.debuggers.preferred()))
        begins, dropped = partial(self._work.move_begins, ask, printed), partial(self._work.reject, ask)
        self._work.put(ask, stop, Move(request, begins, dropped))

    def _run_command(self, ask: Ask) -> None:
        at = self._found(ask, self.view.find)
        if at is None:
            return
        from dbg_agent.questions.passing_pdb import run_command

        outcome = run_command(self.debuggers, ask, at[0], self.view.looked_at())
        self.debuggers.workplace.breakpoints.update()
        if isinstance(outcome, tuple):
            self._put_move(ask, self.stops.number, *outcome)
        else:
            self._answer_evaluated(ask, outcome, at)

    # ----------------------------------------------------------------------------------------------------------- moves

    def moved(self, text: str) -> None:
        """Answer the questions that requested a move, such as a step, because the move has ended.

        Runs in the thread that moved.
        """
        self.forget()
        self._work.move_ends(Kind.VALUE, text)

    def cant_move(self) -> None:
        """Answer that there is no debugger to move the thread."""
        self._work.move_ends(Kind.ERROR, "no debugger can be opened in this rank")

    # ------------------------------------------------------------------------------------------------------ interrupts

    def _interrupt(self, ask: Ask) -> None:
        stops, engine = self.stops, self.debuggers.last
        if stops.phase is StopPhase.OPEN and engine is not None and engine.is_working:
            if ask.withdrawn:
                self.answer(ask, Kind.RUNNING, self._work.running_text())
                return
            engine.interrupt()
            if ask.frame:
                self._work.put(ask, stops.number, RunJob(lambda: self._open_at(ask)))
            else:
                self.broker.call_later(AT_ONCE_SECONDS, lambda: self._interrupted(ask, engine))
        elif stops.is_halted and not stops.is_unreported and ask.frame and not ask.withdrawn:
            self._work.put(ask, stops.number, RunJob(lambda: self._open_at(ask)))
        elif stops.is_halted and not stops.is_unreported:
            word = f"is {stops.state_word}" if ask.withdrawn else stops.state_word
            self.answer(ask, Kind.VALUE, f"{word} already")
        elif ask.withdrawn:
            self.break_in.withdraw()
            self.answer(ask, Kind.VALUE, "continues")
        else:
            self.break_in.stop(ask)

    def _open_at(self, ask: Ask) -> None:
        """Show the frame that a terminal requests; runs in the stopped thread."""
        try:
            self.view.open_at(ask.frame)
        except NoSuchFrame as error:
            self.answer(ask, Kind.ERROR, str(error))
        else:
            self.answer(ask, Kind.VALUE, f"{self.stops.state_word} already")

    def _interrupted(self, ask: Ask, engine: Engine) -> None:
        if engine.is_working:
            self.answer(ask, Kind.RUNNING, f"{self._work.running_text()}, interrupted; it stops when the call ends")
        else:
            self.answer(ask, Kind.VALUE, self.stops.state_word)


_METHODS: dict[Action, Callable[[Questions, Ask], None]] = {
    Action.CONTINUE: Questions._continue,
    Action.KILL: Questions._kill,
    Action.SCREEN: Questions._screen,
    Action.EVAL: Questions._eval,
    Action.INSPECT: Questions._inspect,
    Action.COMMAND: Questions._command,
    Action.WHERE: Questions._where,
    Action.BREAKPOINTS: Questions._breakpoints,
    Action.INTERRUPT: Questions._interrupt,
    Action.RELEASE: Questions._release,
    Action.EXEC: Questions._call_guard,
    Action.NATIVE: Questions._call_guard,
    Action.SAMPLE: Questions._sample,
    Action.NUMBERS: Questions._numbers,
}
