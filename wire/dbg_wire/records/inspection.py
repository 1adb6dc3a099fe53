"""Parameters of questions and rows of their answers: values, source, breakpoints, commands.

A stopped rank answers the requests of an IDE: values level by level, their parts, assignments, source text. An answer
about breakpoints lists all breakpoints of the rank after the change, including those set in PuDB and pdb. A question
that sets and clears no breakpoints only requests the list. A guard runs commands on its rank's host, and reports their
output and exit status.
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
"""Maximum number of values in one answer: IDEs request a hundred at a time."""

MAX_VARIABLE_TEXT = 2000
"""Maximum number of characters of one value in a list. :attr:`InspectionKind.VALUE` shows longer values in full."""

MAX_ROWS_BYTES = MAX_ANSWER_BYTES - 16 * KIB
"""Maximum size of an answer's rows in its message, in bytes, including escapes. A row that exceeds its share is
truncated; if that is not enough, its expression is omitted."""

MIN_CUT_TEXT = 100
"""Minimum number of characters that are kept of a truncated text."""

ValueText = Annotated[str, characters(MAX_TEXT)]


class InspectionKind(str, enum.Enum):
    """Subject of an inspection."""

    PARTS = "parts"
    """The variables of a scope of the frame, or the parts of the value with this ``handle``."""
    VALUE = "value"
    """The value of the expression ``text`` at the frame, with a handle if it has parts. With ``runs`` a text that is
    not an expression is run as a statement. The answer starts with the output printed during the evaluation."""
    ASSIGN = "assign"
    """Assign the value of the expression ``text`` to ``name``, which is a name that :attr:`PARTS` lists for the same
    scope or value. The answer is the variable after the assignment."""
    SOURCE = "source"
    """The text of the loaded source file ``text``, starting at its line ``start``, counted from 0."""
    EXCEPTION = "exception"
    """The uncaught exception because of which the rank is kept, otherwise the exception that its stopped thread is
    handling. If there is no exception, the answer has no record."""


class Scope(str, enum.Enum):
    """Scope of variables in a frame."""

    LOCALS = "locals"
    GLOBALS = "globals"


class Parts(str, enum.Enum):
    """Requested parts of a value."""

    ALL = "all"
    NAMED = "named"
    INDEXED = "indexed"


class Inspection(Inquiry, tag="inspection"):
    """Question about values of a stopped rank. The message that contains it names the frame.

    An empty frame name means the frame that the debugger shows now. If ``handle`` is 0, ``scope`` applies. ``start``
    and ``count`` select a range of the parts; a ``count`` of 0 requests as many parts as fit into one answer.
    """

    sight: InspectionKind
    scope: Scope = Scope.LOCALS
    handle: Serial = 0
    name: FreeText = ""
    text: FreeText = ""
    start: Count = 0
    count: Count = 0
    parts: Parts = Parts.ALL
    runs: bool = False


class Variable(Row, tag="variable"):
    """One value. ``text`` is the text that ``dbg-attach eval`` shows, truncated to MAX_VARIABLE_TEXT in a list.

    ``expression`` evaluates to the value at the frame; it is empty if there is no such expression. ``handle`` is 0 for
    a value without parts; ``named`` and ``indexed`` are the numbers of its parts. ``is_fixed`` means that no
    value can be assigned to it.
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
    """Lines of a source file as the rank has loaded it.

    ``start`` is the number of the first line, counted from 0, and ``total`` the number of lines of the file. ``lines``
    are joined by line feeds.
    """

    path: Path
    start: Count
    total: Count
    lines: ValueText


class ExceptionSeen(Row, tag="exception"):
    """An exception: the full name of its class, its text, and the traceback that Python prints.

    The middle of a long traceback is left out.

    ``is_uncaught`` means that the rank is kept because of this exception; otherwise the program is handling it.
    """

    type: Sentence
    text: ValueText
    traceback: ValueText = ""
    is_uncaught: bool = True


InspectionRecord = Variable | SourceText | ExceptionSeen


@dataclass(frozen=True, slots=True)
class Inspected:
    """Contents of an answer to an inspection, in the order of its rows."""

    variables: tuple[Variable, ...] = ()
    sources: tuple[SourceText, ...] = ()
    exception: ExceptionSeen | None = None


def cut_to_fit(records: Iterable[InspectionRecord]) -> tuple[InspectionRecord, ...]:
    """Return the rows of an answer. Texts are truncated if the rows would not fit into one message."""
    listed = tuple(records)
    share = MAX_ROWS_BYTES // max(1, len(listed))
    return tuple(_cut(one, share) for one in listed)


def written_length(text: str) -> int:
    """Return the size of a text in a message, in bytes, including escapes."""
    return len(json.encode(text))


def _cut(record: InspectionRecord, share: int) -> InspectionRecord:
    for name, least in _CUT.get(type(record), {}).items():
        while (excess := size_of(record) - share) > 0:
            text = getattr(record, name)
            if len(text) <= least:
                break
            # One character takes at most six bytes in a message.
            kept = max(least, min(len(text) - 1, len(text) - excess // 6))
            record = record.replace(**{name: f"{text[: kept - 1]}…" if least else ""})
    return record


_CUT: dict[type[Record], dict[str, int]] = {
    Variable: {"text": MIN_CUT_TEXT, "expression": 0},
    SourceText: {"lines": MIN_CUT_TEXT},
    ExceptionSeen: {"traceback": MIN_CUT_TEXT, "text": MIN_CUT_TEXT},
}
"""Fields to truncate in a row that is too long, with the minimum number of characters to keep. 0 means that the text is
removed."""


def inspected_in(rows: Iterable[object]) -> Inspected:
    """Return the inspection result in the rows of an answer."""
    found = rows_by_kind(rows, InspectionRecord)
    return Inspected(
        variables=found[Variable],
        sources=found[SourceText],
        exception=next(iter(found[ExceptionSeen]), None),
    )


class ScreenSize(Inquiry, tag="size"):
    """Size of the screen in the answer to a ``screen`` question, if no terminal defines it."""

    rows: Annotated[int, integers(MIN_ROWS, MAX_ROWS)] = 24
    columns: Annotated[int, integers(MIN_COLUMNS, MAX_COLUMNS)] = 80


# ----------------------------------------------------------------------------------------------------- breakpoints

AbsolutePath = Annotated[str, characters(MAX_PATH, start="/", is_shown=True)]

LineNumber = Annotated[int, integers(1, MAX_RANK)]

Condition = Annotated[str, characters(MAX_CONDITION)]


class BreakpointSpec(Record):
    """A breakpoint to set: at a line of a file of the rank, or at the next line with code.

    It stops only if ``condition`` is true or empty. A hit is an arrival at the line with a true or empty ``condition``.
    ``hits`` is a comparison with the number of hits, such as ``== 3``, ``>= 10`` or ``% 100 == 0``; ``3`` means
    ``>= 3``. If ``hits`` is empty, the breakpoint stops at every hit. With ``log`` the rank does not stop; it prints
    that text, with each ``{expression}`` replaced by its value.
    """

    file: AbsolutePath
    line: LineNumber
    condition: Condition = ""
    hits: Condition = ""
    log: Condition = ""


class LineOfFile(Record):
    """Line that identifies a breakpoint: the requested line, or the line where the breakpoint stops."""

    file: AbsolutePath
    line: LineNumber


class BreakpointChanges(Inquiry, tag="breakpoints"):
    """Breakpoints to clear and then to set.

    A second request for a line changes the breakpoint of the first request. If a user has set a breakpoint at that line
    in PuDB or pdb, the line has both breakpoints. ``clear`` removes the requested breakpoint; if there is none, it
    removes the user's breakpoint.
    """

    clear: Annotated[tuple[LineOfFile, ...], elements(MAX_BREAKPOINTS)] = ()
    set: Annotated[tuple[BreakpointSpec, ...], elements(MAX_BREAKPOINTS)] = ()


class BreakpointState(Row, tag="breakpoint"):
    """A breakpoint in one rank.

    ``asked`` is the requested line and ``line`` the line where it stops. ``is_set`` means that the rank stops there, or
    will stop there once it loads the file. ``problem`` says why it will not, or has another note for the user: for
    example, that the breakpoint takes effect only at the next call of a function that is running. ``hits_so_far`` is
    the number that the condition ``hits`` is compared with.
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


# ------------------------------------------------------------------------------------------ commands next to a rank

MAX_FIRST, MAX_LAST = 64 * KIB, 32 * KIB
"""Sizes of the first and the last part that are kept of a command's output, in bytes. Even with every byte escaped they
fit into an answer. Both are kept, because a listing matters from its start, and an error message is at the end."""

Argument = Annotated[bytes, Meta(max_length=MAX_TEXT)]
"""An argument of a command. The kernel accepts bytes that are not text, so JSON has it in base64."""


class CommandLine(Inquiry, tag="command"):
    """A command to run: the program and its arguments."""

    arguments: Annotated[tuple[Argument, ...], elements(MAX_ITEMS)]

    def __post_init__(self) -> None:
        """Reject a command that the kernel can't start."""
        if not self.arguments or not self.arguments[0]:
            raise InvalidMessage("command", ".arguments do not name a program")
        if any(0 in one for one in self.arguments):
            raise InvalidMessage("command", ".arguments contain a zero byte")

    @property
    def argv(self) -> list[str]:
        """The program and its arguments as strings."""
        return [os.fsdecode(one) for one in self.arguments]


class CommandEnd(Row, tag="end"):
    """End of a command.

    ``status`` is its exit status, negative for a signal. ``left_out`` is the number of omitted bytes of its output.
    ``ended`` says why the guard ended it, such as ``after 10 s``; it is empty if the command ended by itself.
    """

    status: Integer | None = None
    left_out: Count = 0
    ended: Sentence = ""


def command_line(argv: Sequence[str]) -> CommandLine:
    """Build the record for a program and its arguments."""
    return CommandLine(arguments=tuple(map(os.fsencode, argv)))


def output_rows(end: CommandEnd, text: str) -> tuple[CommandEnd | str, ...]:
    """Build the rows of an answer from a command's end and output."""
    return (end, *(text[at : at + MAX_TEXT] for at in range(0, len(text), MAX_TEXT)))


def output_in(rows: Iterable[object]) -> tuple[str, CommandEnd] | None:
    """Return a command's output and end, or None if the answer has no command."""
    listed = tuple(rows)
    end = next((row for row in listed if isinstance(row, CommandEnd)), None)
    return None if end is None else ("".join(row for row in listed if isinstance(row, str)), end)
