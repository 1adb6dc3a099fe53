"""Answers to an IDE's questions about a stopped rank; everything here runs in the stopped thread."""

from __future__ import annotations

import ast
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from types import FrameType
from typing import Any

from dbg_agent.frames.stacks import FrameAt
from dbg_agent.frames.variables import release
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.values.children import Child, Children, children_of, full_name_of, name_of
from dbg_agent.values.describe import beginning_of, describe
from dbg_agent.values.evaluation import Evaluation, Namespaces
from dbg_agent.values.record import abridged, error_text, sentence_of
from dbg_agent.values.source_text import NotLoaded, source_text
from dbg_wire.messages import Ask, Kind
from dbg_wire.records.inspection import (
    MAX_VARIABLE_TEXT,
    MAX_VARIABLES,
    ExceptionSeen,
    Inspection,
    InspectionKind,
    InspectionRecord,
    Parts,
    Variable,
    cut_to_fit,
)
from dbg_wire.records.record import clamp

_OWN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")  # noqa: PTH118, PTH120 - no pathlib in a rank
"""The folder of the agent; its frames are left out of tracebacks."""

MAX_MESSAGE, MAX_TRACEBACK = 3000, 9000
"""Maximum number of characters of an exception's message and traceback. Both fit into one row of an answer, even if
some of their characters must be escaped."""

MAX_CHAIN = 100
"""Maximum number of exceptions in a chain (``__cause__``, ``__context__``) whose frames are read."""

MAX_NAME = 200
"""Maximum number of characters of a variable's name and of its class."""

SHARE = 0.5
"""Fraction of a question's remaining time that one value may use."""

MAX_EXPRESSION = 1000
"""Maximum number of characters of an expression. A deep child whose expression would be longer gets no expression."""

KEY_SECONDS = 0.2
"""Maximum time in seconds for the text of one key of a mapping."""

MAX_HANDLES = 10_000
"""Maximum number of values that are kept: as many as an IDE lists in a hundred full pages. The oldest are dropped
first."""


def seen_exception(error: BaseException, *, is_uncaught: bool) -> ExceptionSeen:
    """Return the description of an exception; its ``str`` may run code of the program."""
    _, _, message = error_text(error).partition(": ")
    return clamp(
        ExceptionSeen,
        type=full_name_of(type(error)),
        text=_cut(message, MAX_MESSAGE),
        traceback=_cut(_traceback_of(error), MAX_TRACEBACK),
        is_uncaught=is_uncaught,
    )


def _traceback_of(error: BaseException) -> str:
    chain: traceback.TracebackException | None = traceback.TracebackException(type(error), error, error.__traceback__)
    whole = chain
    for _ in range(MAX_CHAIN):
        if chain is None:
            break
        chain.stack[:] = [frame for frame in chain.stack if not frame.filename.startswith(_OWN)]
        chain = chain.__cause__ or chain.__context__
    return "".join(whole.format()) if whole is not None else ""


def _cut(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    half = most // 2 - 20
    return f"{text[:half]}\n… [{len(text)} characters] …\n{text[-half:]}"


class NoSuchHandle(Exception):
    """Raised for a handle without a value; the text is the reason."""


class Handles:
    """Values and their expressions by handle. Only the stopped thread uses them, so their finalizers also run there."""

    def __init__(self, most: int = MAX_HANDLES) -> None:
        self._most = most
        self._values: dict[int, tuple[Any, str]] = {}
        self._last = 0

    def of(self, value: Any, expression: str) -> int:
        """Return a new handle of a value."""
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._last += 1
        self._values[self._last] = (value, expression)
        return self._last

    def find(self, handle: int) -> tuple[Any, str]:
        """Return the value of a handle and its expression; raise NoSuchHandle."""
        if handle not in self._values:
            raise NoSuchHandle(
                f"value {handle} is no longer kept: the rank has continued, or more than {self._most:,} values were "
                "listed since; list the variables again"
            )
        return self._values[handle]

    def clear(self) -> None:
        """Forget all values, because the thread continues."""
        # A finalizer of a value may run any code, so the table is already empty when the first one runs.
        values, self._values = self._values, {}
        values.clear()


class Listing:
    """Converter of a value's children to variables of an IDE."""

    def __init__(self, interruptible: Interruptible, handles: Handles) -> None:
        self._interruptible = interruptible
        self._handles = handles

    def children(self, value: Any) -> Children:
        """Return the children of a value."""
        return children_of(value, _name_of_key)

    def variables(self, children: Iterable[Child], parent: str, seconds: float) -> list[Variable]:
        """Return the variables of these children of the expression ``parent``, within about ``seconds``.

        A value that takes more than its share is listed as interrupted, and the next ones are still read.
        """
        made: list[Variable] = []
        waiting = list(children)[::-1]
        end = time.monotonic() + seconds
        while waiting:
            self._some(waiting, made, parent, end)
        return made

    def _some(self, waiting: list[Child], made: list[Variable], parent: str, end: float) -> None:
        """Read children until all are done or one takes too long. They are taken from the end of ``waiting``."""
        left = end - time.monotonic()
        if left <= 0:
            made.extend(self._untold(child, parent, "not read: out of time") for child in waiting[::-1])
            waiting.clear()
            return
        share, total = left * SHARE, len(made) + len(waiting)

        def look() -> None:
            while waiting:
                made.append(self._variable(waiting[-1], parent, share))
                waiting.pop()

        if self._interruptible.within(share, look):
            return
        if len(made) + len(waiting) > total:
            # The time ended after a variable was added to `made`, but before its child was removed from `waiting`.
            waiting.pop()
        elif waiting:
            made.append(self._untold(waiting.pop(), parent, f"interrupted after {share:.3g} s"))

    def _variable(self, child: Child, parent: str, seconds: float) -> Variable:
        try:
            value = child.read()
        except Exception as error:
            return self._untold(child, parent, sentence_of(error))
        return self.row_of(child, parent, value, beginning_of(value, most=MAX_VARIABLE_TEXT, seconds=seconds))

    def row_of(self, child: Child, parent: str, value: Any, text: str) -> Variable:
        """Return a variable with this value and text."""
        expression = expression_of(parent, child)
        try:
            children = self.children(value)
        except Exception:
            # A value is also shown if its children can't be counted: `len()` fails for a range longer than any list.
            children = Children()
        named, indexed = len(children.named), children.size
        return clamp(
            Variable,
            name=child.name[:MAX_NAME],
            text=text,
            type=name_of(type(value))[:MAX_NAME],
            expression=expression,
            handle=self._handles.of(value, expression) if named or indexed else 0,
            named=named,
            indexed=indexed,
            is_fixed=child.write is None,
        )

    def _untold(self, child: Child, parent: str, why: str) -> Variable:
        return clamp(
            Variable,
            name=child.name[:MAX_NAME],
            text=f"<{why}>",
            expression=expression_of(parent, child),
            is_fixed=child.write is None,
        )


def expression_of(parent: str, child: Child) -> str:
    """Return the expression of a child of ``parent``; empty if it has none. Variables have no parent."""
    if not child.step or (not parent and child.step.startswith((".", "["))):
        return ""
    text = parent + child.step
    return text if len(text) <= MAX_EXPRESSION else ""


def _name_of_key(key: Any) -> str:
    return repr(key) if type(key) is int else beginning_of(key, most=MAX_NAME, seconds=KEY_SECONDS)


class Refused(Exception):
    """Raised for a question that can't be answered; the text is the reason."""


class Inspector:
    """The values that an IDE has requested at this stop, and the answers."""

    def __init__(
        self,
        interruptible: Interruptible,
        frames: Callable[[], Sequence[tuple[FrameType, int]]],
        uncaught: Callable[[], BaseException | None],
    ) -> None:
        """Keep the callbacks.

        ``frames`` returns the frames that the stop shows, with their lines; ``uncaught`` returns the exception of a
        crash.
        """
        self._frames = frames
        self._uncaught = uncaught
        self.handles = Handles()
        self._listing = Listing(interruptible, self.handles)
        self._read: dict[int, FrameType] = {}
        """The frames whose variables were read at this stop."""

    def forget(self) -> None:
        """Forget all values, because the thread continues; release the locals that were read from frames."""
        self.handles.clear()
        read, self._read = self._read, {}
        release(read.values())

    def answer(self, question: Inspection, names: Namespaces, seconds: float) -> Iterable[InspectionRecord]:
        """Return the records of an answer; raise Refused, NoSuchHandle, or an exception of the program's code."""
        self._read[id(names.frame)] = names.frame
        if question.sight is InspectionKind.PARTS:
            return self._parts(question, names, seconds)
        if question.sight is InspectionKind.VALUE:
            return [self._value(question, names, seconds)]
        if question.sight is InspectionKind.ASSIGN:
            return [self._assign(question, names, seconds)]
        if question.sight is InspectionKind.SOURCE:
            frames = [frame for frame, _ in self._frames()]
            return source_text(question.text, question.start, question.count, frames)
        return self._exception()

    def _opened(self, question: Inspection, names: Namespaces) -> tuple[Children, str]:
        """Return the requested children and the expression of their parent."""
        if not question.handle:
            return names.children(question.scope), ""
        value, expression = self.handles.find(question.handle)
        return self._listing.children(value), expression

    def _parts(self, question: Inspection, names: Namespaces, seconds: float) -> list[Variable]:
        opened, parent = self._opened(question, names)
        count = min(question.count or MAX_VARIABLES, MAX_VARIABLES)
        start, named = question.start, len(opened.named)
        end = start + count
        if question.parts is Parts.NAMED:
            end = min(end, named)
        elif question.parts is Parts.INDEXED:
            start, end = start + named, end + named
        return self._listing.variables(opened.page(start, end), parent, seconds)

    def _value(self, question: Inspection, names: Namespaces, seconds: float) -> Variable:
        evaluation = Evaluation(names, runs=question.runs)
        value = self._run(evaluation, question.text)
        printed = evaluation.printed
        if not evaluation.is_expression or (printed and value is None):
            return clamp(Variable, name="", text=abridged(printed.rstrip("\n")), is_fixed=True)
        text = abridged(printed + describe(value, seconds=seconds).text)
        return self._listing.row_of(Child("", lambda: value, _root_of(question.text)), "", value, text)

    def _assign(self, question: Inspection, names: Namespaces, seconds: float) -> Variable:
        opened, parent = self._opened(question, names)
        child = opened.find(question.name)
        if child is None:
            raise Refused(f"there is no `{question.name}` to assign to; list the variables again")
        if child.write is None:
            raise Refused(f"`{question.name}` can't be assigned: it is read-only")
        value = self._run(Evaluation(names), question.text)
        try:
            child.write(value)
        except Exception as error:
            raise Refused(f"`{question.name}` can't be assigned: {error_text(error)}") from None
        return self._listing.variables([child], parent, seconds)[0]

    def _exception(self) -> list[ExceptionSeen]:
        uncaught = self._uncaught()
        error = sys.exc_info()[1] if uncaught is None else uncaught
        return [seen_exception(error, is_uncaught=uncaught is not None)] if error is not None else []

    def _run(self, evaluation: Evaluation, text: str) -> Any:
        try:
            return evaluation.run(text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise Refused(abridged(evaluation.printed + error_text(error))) from None


_SIMPLE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
"""A dotted name; a step can be appended to it directly."""


def _root_of(text: str) -> str:
    """Return a typed expression in a form to which a step such as ``.name`` can be appended; empty if impossible."""
    text = text.strip()
    if _SIMPLE.fullmatch(text):
        return text
    try:
        # The expression is written again from its syntax tree, which removes a comment or line break at its end. Steps
        # appended to a comment would have no effect.
        return f"({ast.unparse(ast.parse(text, mode='eval'))})"
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def inspected(
    inspector: Inspector, ask: Ask, at: FrameAt, known_locals: MutableMapping[str, Any] | None
) -> tuple[Kind, str, tuple[InspectionRecord, ...]]:
    """Return the kind, the text and the rows of an answer about the frame ``at``.

    ``known_locals`` are the locals that an open debugger keeps for this frame, if one shows it.
    """
    question = ask.inquiry
    if not isinstance(question, Inspection):
        return Kind.ERROR, "the question is not about values", ()
    try:
        names = Namespaces(at[0], known_locals)
        return Kind.VALUE, "", cut_to_fit(inspector.answer(question, names, ask.seconds / 2))
    except (Refused, NoSuchHandle, NotLoaded) as error:
        return Kind.ERROR, str(error), ()
