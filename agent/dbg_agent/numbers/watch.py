"""The watches of this process: they start and end, and stop the rank at its first wrong number.

Once a rank has stopped, its watches end. The other ranks of the run are held at their next module or step, where they
are outside of any collective.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from dbg_agent.breakpoints.conditional_stop import check_stop
from dbg_agent.breakpoints.startup_stops import add
from dbg_agent.frames.stacks import frames_of, is_users_file, users_frame
from dbg_agent.numbers.gradient_norms import GradientNorms
from dbg_agent.numbers.hooks import Found, Observer, TrainingHooks
from dbg_agent.numbers.not_finite import NotFinite
from dbg_agent.numbers.recording import Recorder
from dbg_agent.numbers.replicas import Replicas
from dbg_agent.numbers.values_at_line import ValuesAtLine
from dbg_agent.stop.inbox import unharmed
from dbg_wire.errors import BadInput, error_line
from dbg_wire.messages import Differs
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.numbers import NumbersQuestion, NumbersRecord, NumbersState, Origin, WrongNumber
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker

RECEIVED_SECONDS = 5.0
"""Time in seconds that a rank with a received wrong number waits for the report of the rank that computed it. A report
takes milliseconds; a busy host may need a second."""


class OtherRanks(Protocol):
    """The stops of other ranks of the run, as this rank knows them."""

    others_are_kept: threading.Event
    times_kept: int
    kept: tuple[int, ...]

    def hold_for_kept(self, frame: FrameType) -> None:
        """Wait at ``frame`` while other ranks of the run are kept."""


@dataclass(kw_only=True, eq=False)
class Watch:
    """The observers that a question has started, and the stop at the first wrong number.

    ``connect`` waits for a broker, and returns False if the program continues without one. ``stop`` stops the calling
    thread at a frame, with a sentence about the stop.
    """

    broker: ToBroker
    is_connected: Callable[[], bool]
    connect: Callable[[], bool]
    stop: Callable[[FrameType, str], None]
    others: OtherRanks

    def __post_init__(self) -> None:
        self._hooks = TrainingHooks(self._hold, self._stop, self._failed)
        self._recorder: Recorder | None = None
        self._replicas: Replicas | None = None
        self._norms = GradientNorms(self._hooks)
        self._values: ValuesAtLine | None = None
        self._wrong: WrongNumber | None = None
        self._times_kept = 0
        """The number of times that other ranks had been kept when the watches started."""
        self._waiting: Found | None = None
        """A wrong number seen in a thread without the user's code, such as autograd's thread of a device."""
        # A forked child becomes a rank of its own, with its own watches, or is a helper that is not watched.
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._recorder = None
        self.end()

    def start(self, question: NumbersQuestion) -> None:
        """Start watches in place of the current ones. Any thread may call it."""
        self._wrong = self._waiting = self._values = None
        self._times_kept = self.others.times_kept
        if question.record or question.reference:
            self._recorder = Recorder(question, self._hooks, self.broker.number, self.broker.warn)
        self._norms = norms = GradientNorms(self._hooks)
        watches: list[Observer] = [NotFinite(question, self._hooks), norms] if question.nan else []
        if question.different:
            self._replicas = Replicas(question, self._hooks, self.broker, self.is_connected)
            watches.append(self._replicas)
        self._observe(*watches, exact=question.exact)
        if question.at_line is not None:
            self._values = ValuesAtLine(question.at_line, self._at_line)
            add(self._values, sys.modules)

    def end(self) -> None:
        """End all watches. The recording goes on."""
        self._values = None
        self._observe()

    def _observe(self, *watches: Observer, exact: bool = False) -> None:
        self._hooks.start(tuple(filter(None, (*watches, self._recorder))), exact=exact)

    def on_differs(self, message: Differs) -> None:
        """Handle the broker's message about replicas that differ. Called in the link's thread."""
        if self._replicas is not None:
            self._replicas.on_differs(message)

    def answer(self, question: NumbersQuestion) -> tuple[NumbersRecord, ...]:
        """Do what a terminal asks. Return the state of the watches, and the first wrong number. Raise BadInput."""
        if question.is_watch:
            self.start(question)
            if self._values is not None and not any(placed.line for placed in self._values.places.values()):
                self.end()
                raise BadInput(f"{question.expression} names no line with code in a loaded file", "name another line")
        elif question.ends:
            self.end()
        hooks = self._hooks
        state = clamp(
            NumbersState,
            is_on=bool(hooks.observers or self._values),
            step=hooks.step,
            checked=hooks.checked,
            compiled=hooks.compiled,
            norms=tuple(self._norms.recent),
        )
        return (state,) if self._wrong is None else (state, self._wrong)

    # ---------------------------------------------------------------------------------------- in the program's threads

    def _hold(self) -> None:
        """Hold this rank if another one is stopped. Stop it if another thread has found a wrong number."""
        if self.others.times_kept != self._times_kept:
            # This rank may have waited in a collective until the stopped rank was resumed. Then it only ends its watch.
            self._hold_for_others()
        elif self._waiting is not None:
            self._stop(self._waiting)

    def _at_line(self, values: ValuesAtLine, frame: FrameType) -> None:
        """Hold this rank before a line if another one is stopped. Stop it if a value is not finite there."""
        unharmed(self._hold, self._failed)
        if values is not self._values:
            return
        values.counted += 1
        self._hooks.checked += 1
        if "torch" not in sys.modules:
            # No optimizer of torch counts the steps.
            self._hooks.step = values.counted
        check_stop(
            frame,
            lambda _: values.is_wrong(frame, self.broker.number, self._hooks.step),
            lambda _: unharmed(partial(self._stop, values.found), self._failed),
            self._failed,
        )

    def _hold_for_others(self) -> None:
        self.end()
        self._times_kept = self.others.times_kept
        at = users_frame(frames_of(sys._getframe()))
        if at is not None:
            self.others.hold_for_kept(at[0])

    def _stop(self, found: Found) -> None:
        """Stop this rank at its first wrong number, unless the number came from a rank that is stopped already."""
        at = users_frame(frames_of(sys._getframe()))
        if at is None or not is_users_file(at[0].f_code.co_filename):
            self._waiting = self._waiting or found
            return
        frame, _ = at
        wrong, variables = found
        self._wrong, self._waiting = wrong, None
        self.end()
        if not self.connect():
            return
        if wrong.origin is Origin.RECEIVED:
            if self.others.others_are_kept.wait(RECEIVED_SECONDS):
                self._wrong = wrong.replace(others=format_ranks(self.others.kept))
                self.others.hold_for_kept(frame)
                return
            # No rank has computed it in its own backward pass.
            self._wrong = wrong = wrong.replace(origin=Origin.CHANGED)
        frame.f_locals.update(variables)
        try:
            self.stop(frame, wrong.text)
        finally:
            # The frame may live long, and must not keep the tensors alive.
            frame.f_locals.update(dict.fromkeys(variables))

    def _failed(self, error: Exception) -> None:
        self.end()
        self.broker.warn(f"the watch of numbers failed ({error_line(error)}); continuing without it")
