"""The answers to what an IDE asks of a stopped rank; all in the stopped thread."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from dbg_wire.inspection import MAX_VARIABLES, Inspection, InspectionRecord, Parts, Sight, Variable
from dbg_wire.records import fitted

from ..values.answer_text import abridged, error_text
from ..values.describe import describe
from .evaluation import Evaluation
from .expressions import root_of
from .handles import Handles
from .listing import Clock, Listing
from .namespaces import Namespaces
from .opening import Opening
from .part import Opened, Part


class Refused(Exception):
    """A question that can't be answered; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """The frame that a question is about, the locals that an open debugger has of it, and the seconds for the work."""

    frame: FrameType
    known_locals: MutableMapping[str, Any] | None
    seconds: float


class Inspector:
    """What an IDE has asked for at this stop, and the answers."""

    def __init__(self, clock: Clock) -> None:
        self.handles = Handles()
        self._opening = Opening()
        self._listing = Listing(clock, self.handles, self._opening)

    def forget(self) -> None:
        """Forget all values, since the thread goes on."""
        self._opening = Opening()
        self._listing.opening = self._opening
        self.handles.clear()

    def answer(self, question: Inspection, place: Place) -> Iterable[InspectionRecord]:
        """Return the records of an answer. Raises Refused, NoSuchHandle, and what code of the program raises."""
        names = Namespaces(place.frame, place.known_locals)
        if question.sight is Sight.PARTS:
            return self._parts(question, names, place.seconds)
        if question.sight is Sight.VALUE:
            return [self._value(question, names, place.seconds)]
        if question.sight is Sight.ASSIGN:
            return [self._assign(question, names, place.seconds)]
        raise Refused(f"it can't tell `{question.sight.value}`")

    def _opened(self, question: Inspection, names: Namespaces) -> Opened:
        if not question.handle:
            return names.opened(question.scope)
        return self._opening.opened(*self.handles.find(question.handle))

    def _parts(self, question: Inspection, names: Namespaces, seconds: float) -> list[Variable]:
        opened = self._opened(question, names)
        count = min(question.count or MAX_VARIABLES, MAX_VARIABLES)
        begin, named = question.begin, len(opened.names)
        end = begin + count
        if question.parts is Parts.NAMED:
            end = min(end, named)
        elif question.parts is Parts.INDEXED:
            begin, end = begin + named, end + named
        return self._listing.variables(opened.page(begin, end), seconds)

    def _value(self, question: Inspection, names: Namespaces, seconds: float) -> Variable:
        evaluation = Evaluation(names, runs=question.runs)
        value = self._run(evaluation, question.text)
        printed = evaluation.printed
        if not evaluation.is_expression or (printed and value is None):
            return fitted(Variable, name="", text=abridged(printed.rstrip("\n")), is_fixed=True)
        text = abridged(printed + describe(value, stats=False, seconds=seconds).text)
        part = Part("", lambda: value, root_of(question.text))
        return self._listing.told(part, value, text)

    def _assign(self, question: Inspection, names: Namespaces, seconds: float) -> Variable:
        part = self._opened(question, names).find(question.name)
        if part is None:
            raise Refused(f"there is no `{question.name}` to assign to; list the variables again")
        if part.write is None:
            raise Refused(f"`{question.name}` can't be assigned: its owner can't be changed")
        value = self._run(Evaluation(names), question.text)
        try:
            part.write(value)
        except Exception as error:
            raise Refused(f"`{question.name}` can't be assigned: {error_text(error)}") from None
        return self._listing.variables([part], seconds)[0]

    def _run(self, evaluation: Evaluation, text: str) -> Any:
        try:
            return evaluation.run(text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise Refused(abridged(evaluation.printed + error_text(error))) from None
