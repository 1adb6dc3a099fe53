"""How a terminal sets breakpoints in ranks that run or are stopped, and how each rank answers.

The question's inquiry is a :class:`BreakpointsWish`. The rows of the answer are the breakpoints that the rank has by
then, those set in PuDB and pdb included. A question without a wish only asks for these.
"""

from typing import Annotated

from dbg_wire.limits import MAX_BREAKPOINTS, MAX_CONDITION, MAX_PATH
from dbg_wire.records.record import MAX_RANK, Count, Inquiry, Record, Row, Sentence, characters, elements, integers

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
