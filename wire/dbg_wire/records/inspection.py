"""What questions ask of ranks beside a text, and the rows of the answers: values, source, breakpoints, commands.

A stopped rank is asked what an IDE asks: values in levels, their parts, assignments, source text. The rows
of an answer about breakpoints are those that the rank has by then, those set in PuDB and pdb included; a question
without a wish only asks for these. A guard runs commands beside its rank, and tells their output and end.
"""

import enum
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, json

from dbg_wire.limits import (
    KIB,
    MAX_ANSWER_BYTES,
    MAX_BREAKPOINTS,
    MAX_COLUMNS,
    MAX_CONDITION,
    MAX_ITEMS,
    MAX_PATH,
    MAX_ROWS,
    MAX_TEXT,
    MIN_COLUMNS,
    MIN_ROWS,
)
from dbg_wire.records.record import (
    MAX_RANK,
    Count,
    FreeText,
    Inquiry,
    Integer,
    InvalidMessage,
    Path,
    Record,
    Row,
    Sentence,
    Serial,
    characters,
    elements,
    integers,
    rows_by_kind,
    size_of,
)

MAX_VARIABLES = 200
"""Values of one answer: IDEs ask for a hundred at a time."""

MAX_VARIABLE_TEXT = 2000
"""Characters of one value in a list. What is longer is shown whole by :attr:`Sight.VALUE`."""

MAX_ROWS_BYTES = MAX_ANSWER_BYTES - 16 * KIB
"""Bytes of an answer's rows in its message, the escapes included. In a row that has more than its share of these the
text is cut, and if that is not enough the expression is left out."""

MIN_CUT_TEXT = 100
"""Characters that are always left of a text."""

ValueText = Annotated[str, characters(MAX_TEXT)]


class Sight(str, enum.Enum):
    """What a question asks for."""

    PARTS = "parts"
    """The variables of a scope of the frame, or the parts of the value with this ``handle``."""
    VALUE = "value"
    """The value of the expression ``text`` at the frame, with a handle if it has parts. With ``runs`` a text that is no
    expression is run as a statement. What is printed meanwhile stands before the value."""
    ASSIGN = "assign"
    """Assign the value of the expression ``text`` to ``name``, which a question for parts has listed in the same scope
    or value; the answer is the variable as it is then."""
    SOURCE = "source"
    """The text of the loaded source file ``text``, from its line ``begin`` on, counted from 0."""
    EXCEPTION = "exception"
    """The exception for which the rank is kept, or that its thread handles just now; no record if there is none."""


class Scope(str, enum.Enum):
    """The variables of a frame that a question is about."""

    LOCALS = "locals"
    GLOBALS = "globals"


class Parts(str, enum.Enum):
    """Which parts of a value are asked for."""

    ALL = "all"
    NAMED = "named"
    INDEXED = "indexed"


class Inspection(Inquiry, tag="inspection"):
    """A question; the frame is that of the message, empty for the frame at which the rank is looked at.

    ``handle`` is 0 where ``scope`` counts. ``begin`` and ``count`` choose among the parts in their order; a ``count``
    of 0 is as many as one answer holds.
    """

    sight: Sight
    scope: Scope = Scope.LOCALS
    handle: Serial = 0
    name: FreeText = ""
    text: FreeText = ""
    begin: Count = 0
    count: Count = 0
    parts: Parts = Parts.ALL
    runs: bool = False


class Variable(Row, tag="variable"):
    """One value. ``text`` is what ``dbg-attach eval`` shows of it, cut to MAX_VARIABLE_TEXT in a list.

    ``expression`` yields the value at the frame, empty if none does. ``handle`` is 0 for a value without parts;
    ``named`` and ``indexed`` count its parts. ``is_fixed`` tells that nothing can be assigned.
    """

    name: FreeText
    text: ValueText
    type: Sentence = ""
    expression: FreeText = ""
    handle: Serial = 0
    named: Count = 0
    indexed: Count = 0
    is_fixed: bool = False


class SourceText(Row, tag="source"):
    """Lines of a source file as the rank has loaded it: ``begin`` is the first one's number, counted from 0.

    ``total`` is the number of lines of the file. ``lines`` are joined by line feeds.
    """

    path: Path
    begin: Count
    total: Count
    lines: ValueText


class ExceptionSeen(Row, tag="exception"):
    """An exception: the full name of its class, its text, and its traceback as Python prints it, cut in the middle.

    ``is_uncaught`` tells that the rank is kept for it; otherwise the program handles it.
    """

    type: Sentence
    text: ValueText
    traceback: ValueText = ""
    is_uncaught: bool = True


InspectionRecord = Variable | SourceText | ExceptionSeen


@dataclass(frozen=True, slots=True)
class Inspected:
    """What an answer tells, in the order of its rows."""

    variables: tuple[Variable, ...] = ()
    sources: tuple[SourceText, ...] = ()
    exception: ExceptionSeen | None = None


def cut_to_fit(records: Iterable[InspectionRecord]) -> tuple[InspectionRecord, ...]:
    """Return the rows of an answer. Texts are cut if the rows would not fit into one message."""
    listed = tuple(records)
    share = MAX_ROWS_BYTES // max(1, len(listed))
    return tuple(_cut(one, share) for one in listed)


def written_length(text: str) -> int:
    """Return how many bytes a text takes in a message, its escapes included."""
    return len(json.encode(text))


def _cut(record: InspectionRecord, share: int) -> InspectionRecord:
    for name, least in _CUT.get(type(record), {}).items():
        while (excess := size_of(record) - share) > 0:
            text = getattr(record, name)
            if len(text) <= least:
                break
            # A character has at most six bytes in a message.
            kept = max(least, min(len(text) - 1, len(text) - excess // 6))
            record = record.replace(**{name: f"{text[: kept - 1]}…" if least else ""})
    return record


_CUT: dict[type[Record], dict[str, int]] = {
    Variable: {"text": MIN_CUT_TEXT, "expression": 0},
    SourceText: {"lines": MIN_CUT_TEXT},
    ExceptionSeen: {"traceback": MIN_CUT_TEXT, "text": MIN_CUT_TEXT},
}
"""The fields that are cut in a row that is too long, with the characters that stay; with 0 all of the text goes."""


def inspected_in(rows: Iterable[object]) -> Inspected:
    """Return what the rows of an answer tell."""
    found = rows_by_kind(rows, InspectionRecord)
    return Inspected(
        variables=found[Variable],
        sources=found[SourceText],
        exception=next(iter(found[ExceptionSeen]), None),
    )


class ScreenSize(Inquiry, tag="size"):
    """The size for which a debugger that nobody looks at draws what a ``screen`` asks for."""

    rows: Annotated[int, integers(MIN_ROWS, MAX_ROWS)] = 24
    columns: Annotated[int, integers(MIN_COLUMNS, MAX_COLUMNS)] = 80


# ----------------------------------------------------------------------------------------------------- breakpoints

AbsolutePath = Annotated[str, characters(MAX_PATH, begin="/", is_shown=True)]

LineNumber = Annotated[int, integers(1, MAX_RANK)]

Condition = Annotated[str, characters(MAX_CONDITION)]


class BreakpointWish(Record):
    """A breakpoint to set: at a line of a file of the rank, or at the next line with code.

    It stops where ``condition`` is true, empty for always. ``hits`` is a comparison with the number of times that the
    program has come there with a true condition, such as ``== 3``, ``>= 10``, ``% 100 == 0`` or ``3``, which means
    ``>= 3``; empty for every time. With ``log`` the rank does not stop and prints that text, in which ``{expression}``
    stands for a value.
    """

    file: AbsolutePath
    line: LineNumber
    condition: Condition = ""
    hits: Condition = ""
    log: Condition = ""


class LineOfFile(Record):
    """A line by which a breakpoint is known: the one that was asked for, or the one where it is."""

    file: AbsolutePath
    line: LineNumber


class BreakpointsWish(Inquiry, tag="breakpoints"):
    """Breakpoints to clear, and then those to set.

    A wish for a line that was wished already changes that one. One that a debugger has set there stays beside it, with
    its own condition, and is cleared only where nothing is wished.
    """

    clear: Annotated[tuple[LineOfFile, ...], elements(MAX_BREAKPOINTS)] = ()
    set: Annotated[tuple[BreakpointWish, ...], elements(MAX_BREAKPOINTS)] = ()


class BreakpointState(Row, tag="breakpoint"):
    """A breakpoint in one rank.

    ``asked`` is the line that was asked for, ``line`` the one at which it stops. ``is_set`` tells whether the rank
    stops there, or will once it loads the file; ``problem`` says why not, or what else a user should know, such as that
    the function runs now and the breakpoint counts from its next call on. ``hits_so_far`` counts as ``hits`` does.
    """

    file: AbsolutePath
    asked: LineNumber
    line: LineNumber
    is_set: bool
    problem: Sentence = ""
    condition: Condition = ""
    hits: Condition = ""
    log: Condition = ""
    hits_so_far: Count = 0


# ------------------------------------------------------------------------------------------- commands beside a rank

MAX_FIRST, MAX_LAST = 64 * KIB, 32 * KIB
"""Bytes of a command's output that are kept, the first and the last: with every byte escaped below the bound of an
answer. What a listing begins with matters, and so does the error with which a command ends."""

Argument = Annotated[bytes, Meta(max_length=MAX_TEXT)]
"""An argument as the kernel takes it, which is not always a text; JSON has it in base64."""


class CommandLine(Inquiry, tag="command"):
    """A command to run: the program and its arguments."""

    arguments: Annotated[tuple[Argument, ...], elements(MAX_ITEMS)]

    def __post_init__(self) -> None:
        """Refuse what no kernel would start."""
        if not self.arguments or not self.arguments[0]:
            raise InvalidMessage("command", ".arguments name no program")
        if any(0 in one for one in self.arguments):
            raise InvalidMessage("command", ".arguments have a zero byte")

    @property
    def words(self) -> list[str]:
        """Return the program and its arguments as Python has them."""
        return [os.fsdecode(one) for one in self.arguments]


class CommandEnd(Row, tag="end"):
    """How a command has ended.

    ``status`` is its exit status, negative for a signal. ``left_out`` are the bytes of its output that are not told.
    ``ended`` says why the guard has ended it, as in ``after 10 s``; empty if it has ended by itself.
    """

    status: Integer | None = None
    left_out: Count = 0
    ended: Sentence = ""


def command_line(words: Sequence[str]) -> CommandLine:
    """Return the command of a program and its arguments."""
    return CommandLine(arguments=tuple(map(os.fsencode, words)))


def output_rows(end: CommandEnd, text: str) -> tuple[CommandEnd | str, ...]:
    """Return the rows of an answer."""
    return (end, *(text[at : at + MAX_TEXT] for at in range(0, len(text), MAX_TEXT)))


def output_in(rows: Iterable[object]) -> tuple[str, CommandEnd] | None:
    """Return what a command printed and how it ended, None for an answer without."""
    listed = tuple(rows)
    end = next((row for row in listed if isinstance(row, CommandEnd)), None)
    return None if end is None else ("".join(row for row in listed if isinstance(row, str)), end)
