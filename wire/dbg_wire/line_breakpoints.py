"""How a terminal sets breakpoints in ranks that run or are stopped, and how each rank answers.

The text of a question is a JSON object, a :class:`BreakpointsWish`. The rows of the answer are a marker and then one
JSON object for each breakpoint that the rank has by then, those set in PuDB and pdb included. A question without a wish
only asks for these.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

from .bounds import MAX_RANK, Count, InvalidMessage, Sentence, characters, elements, integers
from .errors import PeerError
from .limits import MAX_BREAKPOINTS, MAX_CONDITION, MAX_PATH
from .records import Record, decode_record, encode_record

MARKER = "breakpoints"

AbsolutePath = Annotated[str, characters(MAX_PATH, begin="/", is_shown=True, meaning="an absolute path")]

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


class BreakpointsWish(Record):
    """Breakpoints to clear, and then those to set.

    A wish for a line that was wished already changes that one. One that a debugger has set there stays beside it, with
    its own condition, and is cleared only where nothing is wished.
    """

    clear: Annotated[tuple[LineOfFile, ...], elements(MAX_BREAKPOINTS)] = ()
    set: Annotated[tuple[BreakpointWish, ...], elements(MAX_BREAKPOINTS)] = ()


class BreakpointState(Record):
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


def encode_wish(wish: BreakpointsWish) -> str:
    """Return the text of a question. It must be at most MAX_TEXT characters long; split a longer wish."""
    return encode_record(wish)


def decode_wish(text: str) -> BreakpointsWish:
    """Return the wish of a message, an empty one for no text. Raises PeerError for any other text."""
    if not text:
        return BreakpointsWish()
    try:
        wish: BreakpointsWish = decode_record(BreakpointsWish, text)
    except InvalidMessage as error:
        raise PeerError(f"no wish for breakpoints ({error})") from None
    return wish


def encode_breakpoints(states: Iterable[BreakpointState]) -> tuple[str, ...]:
    """Return the rows of an answer."""
    return (MARKER, *(encode_record(one) for one in states))


def decode_breakpoints(rows: Sequence[str]) -> tuple[BreakpointState, ...]:
    """Return the breakpoints of an answer. Raises PeerError for rows without them."""
    if not rows or rows[0] != MARKER:
        raise PeerError("an answer without breakpoints")
    return tuple(_decode(row) for row in rows[1:])


def _decode(row: str) -> BreakpointState:
    try:
        state: BreakpointState = decode_record(BreakpointState, row)
    except InvalidMessage as error:
        raise PeerError(f"a breakpoint that can't be read ({error})") from None
    return state
