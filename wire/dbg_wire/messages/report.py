"""The state of a rank, which the rank sends as a whole after every change."""

from typing import Annotated

from dbg_wire.messages.vocabulary import PromptState
from dbg_wire.records.bounds import (
    MAX_RANK,
    Age,
    Count,
    FreeText,
    Integer,
    Integers,
    InvalidMessage,
    Items,
    Sentence,
    Serial,
    Word,
    integers,
)
from dbg_wire.records.ranks import Place, RankState
from dbg_wire.records.record import Record

REPORTED_STATES = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD})
"""The states that a rank reports itself; the broker infers the others from a rank's silence."""

Size = Annotated[int, integers(0, MAX_RANK)]


class StopInfo(Record):
    """The current stop: its number in this process, why, where, and for how many seconds already.

    The number is 0 if the stops can't be told from one another, and the place is empty if it is unknown.

    ``detail`` is the exception of a crash, or a sentence that says which time limit ends first, or both. ``limit`` is
    that sentence alone, and ``limit_seconds`` the time left, None without a limit. ``lease`` is after how many seconds
    without a driver, or without a key of one, the stop ends by itself, and ``lease_seconds`` how many of them are left;
    None if the stop lasts until it is let go.
    """

    number: Serial
    reason: Word
    where: Place
    age: Age
    thread: FreeText
    detail: FreeText = ""
    limit: FreeText = ""
    limit_seconds: Age | None = None
    lease: Age | None = None
    lease_seconds: Age | None = None


class Arrival(Record):
    """How often this rank, chosen to stop at a site, has arrived there and has completed its stop there."""

    site: Sentence
    arrived: Integer
    completed: Integer


class Waiting(Record):
    """What a rank is held for: the completion of the ``count``-th stop at a site by each of ``ranks``."""

    site: Sentence
    count: Integer
    ranks: Integers


class SessionInfo(Record):
    """The debugger open on the stop; ``rows`` and ``columns`` are its screen's."""

    number: Serial
    engine: Word
    rows: Size
    columns: Size


class PromptInfo(Record):
    """The line that a debugger waits for; ``offset`` is the length of the session's log before the prompt.

    ``number`` counts the prompts of the process: a reply to any prompt but the current one comes too late.
    """

    number: Count
    offset: Count
    text: FreeText
    state: PromptState


class RankReport(Record):
    """The whole state of a rank now.

    ``generation`` is the last driver's number that the rank knows; ``applied`` counts the bytes of that driver's
    input that the debugger took or the rank discarded. ``stepping`` means that the stop's thread runs to the end of
    a step; then the state is ``running`` while the stop goes on. ``breakpoints`` counts the breakpoints that may stop
    the rank again, ``queued`` the threads that wait for their own stop. ``prompt`` is the line that a line debugger
    waits for, if any. ``arrivals`` are the sites where this rank was chosen to stop, ``waits`` is what it is held for.
    ``passed`` is the last stop that the program passed while there was no broker, and why: the end of a sentence.
    """

    state: RankState
    stop: StopInfo | None = None
    session: SessionInfo | None = None
    stepping: bool = False
    breakpoints: Count = 0
    queued: Count = 0
    generation: Serial = 0
    applied: Count = 0
    prompt: PromptInfo | None = None
    arrivals: Annotated[tuple[Arrival, ...], Items] = ()
    waits: Waiting | None = None
    passed: FreeText = ""

    def __post_init__(self) -> None:
        """Refuse a state that only the broker infers."""
        if self.state not in REPORTED_STATES:
            raise InvalidMessage("rankreport", f".state: {self.state.value} is none that a rank reports")
