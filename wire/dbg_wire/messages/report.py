"""What is true of a rank, as it restates it after every change."""

from typing import Annotated

from .. import limits
from ..bounds import MAX_RANK, Age, AtMost, Count, Number, OneOf, Sentence, Serial, Word
from ..ranks import Breakpoint, Place, RankState
from ..records import Record
from .vocabulary import PromptState

Reported = Annotated[RankState, OneOf(RankState.RUNNING, RankState.STOPPED, RankState.HELD)]
"""What a rank says of itself; the other states are what a broker makes of its silence."""

Size = Annotated[int, Number(0, MAX_RANK)]

UserBreakpoints = Annotated[tuple[Breakpoint, ...], AtMost(limits.MAX_BREAKPOINTS)]


class StopInfo(Record):
    """Describe the current stop: its number in this process, why, where, and for how many seconds already.

    ``detail`` is the exception of a crash, or which clock will ring first, in a sentence.
    """

    number: Serial
    reason: Word
    where: Place
    age: Age
    thread: str
    detail: str = ""


class Arrival(Record):
    """Count how often this rank, chosen to stop there, has arrived at a site and has completed its stop there."""

    site: Sentence
    arrived: int
    completed: int


class Waiting(Record):
    """Say that this rank is held at a site, on its ``count``-th visit, until all these ranks have completed that."""

    site: Sentence
    count: int
    ranks: tuple[int, ...]


class SessionInfo(Record):
    """Describe the debugger open on the stop; ``rows`` and ``columns`` are its screen's."""

    number: Serial
    engine: Word
    rows: Size
    columns: Size


class PromptInfo(Record):
    """Describe the line that a debugger waits for; ``offset`` is the length of the session's log before it.

    ``number`` counts the prompts of the process: a reply to any other prompt than the current one comes too late.
    """

    number: Count
    offset: Count
    text: str
    state: PromptState


class RankReport(Record):
    """State all that is true of a rank now.

    ``generation`` is the last driver's number that the rank knows; ``applied`` counts the bytes of that driver's
    input which the debugger took or the rank discarded. ``stepping`` means that the stop's thread runs to the end of
    a step; then the state is ``running`` while the stop goes on. ``breakpoints`` counts those that may stop it again,
    ``queued`` the threads that wait for their own stop. ``prompt`` is what a line debugger waits for, if it does.
    ``arrivals`` are the sites where this rank was chosen to stop, ``waits`` is what it is held for.
    ``user_breakpoints`` are those that people have set, to be set again in a later job; they stay when a debugger is
    left in a way that lets the rank run past them, until the next one is open.
    """

    state: Reported
    stop: StopInfo | None = None
    session: SessionInfo | None = None
    stepping: bool = False
    breakpoints: Count = 0
    queued: Count = 0
    generation: Serial = 0
    applied: Count = 0
    prompt: PromptInfo | None = None
    arrivals: tuple[Arrival, ...] = ()
    waits: Waiting | None = None
    user_breakpoints: UserBreakpoints = ()
