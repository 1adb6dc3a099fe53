"""Ask one stopped rank what an IDE asks: values in levels, their parts, assignments, completions, source text."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from msgspec import json

from dbg_wire.limits import (
    KIB,
    MAX_ANSWER_BYTES,
    MAX_COLUMNS,
    MAX_ITEMS,
    MAX_ROWS,
    MAX_TEXT,
    MIN_COLUMNS,
    MIN_ROWS,
)
from dbg_wire.records.record import (
    Count,
    FreeText,
    Inquiry,
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
    COMPLETIONS = "completions"
    """The texts that may follow in ``text`` at the frame, with the cursor behind ``begin`` characters."""
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
    ``named`` and ``indexed`` count its parts. ``is_fixed`` tells that nothing can be assigned. ``is_lazy`` tells that
    the value is not looked at before somebody asks for it, since that runs code of the program.
    """

    name: FreeText
    text: ValueText
    type: Sentence = ""
    expression: FreeText = ""
    handle: Serial = 0
    named: Count = 0
    indexed: Count = 0
    is_fixed: bool = False
    is_lazy: bool = False


class Completion(Row, tag="completion"):
    """A text that may replace ``length`` characters of the line from ``begin`` on, counted from 0."""

    text: FreeText
    begin: Count
    length: Count


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


InspectionRecord = Variable | Completion | SourceText | ExceptionSeen


@dataclass(frozen=True, slots=True)
class Inspected:
    """What an answer tells, in the order of its rows."""

    variables: tuple[Variable, ...] = ()
    completions: tuple[Completion, ...] = ()
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
        completions=found[Completion],
        sources=found[SourceText],
        exception=next(iter(found[ExceptionSeen]), None),
    )


class Part(Row, tag="part"):
    """One part: ``step`` finds it, ``label`` is the step as a reader sees it, empty for a range of elements.

    Equal parts of two ranks have equal digests; a part with an empty digest can't be compared.
    """

    step: FreeText
    label: FreeText
    digest: FreeText
    text: FreeText = ""


class ScreenSize(Inquiry, tag="size"):
    """The size for which a debugger that nobody looks at draws what a ``screen`` asks for."""

    rows: Annotated[int, integers(MIN_ROWS, MAX_ROWS)] = 24
    columns: Annotated[int, integers(MIN_COLUMNS, MAX_COLUMNS)] = 80


class PartsQuestion(Inquiry, tag="parts"):
    """A question for the parts of the element at ``path``, in the value that has one of the digests ``of``.

    ``of`` holds the exact digests of the values on all asked ranks, ``path`` the steps from the whole value to the part
    whose parts are asked for, and ``exact`` tells whether memory addresses count.
    """

    of: Annotated[tuple[FreeText, ...], elements(MAX_ITEMS)]
    path: Annotated[tuple[FreeText, ...], elements(MAX_ITEMS)] = ()
    exact: bool = False
