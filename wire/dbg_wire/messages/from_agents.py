"""The state of a rank, and the messages of agents, some of which the broker passes on to terminals.

A guard sends as the agent of its rank. A rank sends its state as a whole after every change.
"""

from typing import Annotated, Any

import msgspec

from dbg_wire.limits import MAX_ANSWER_BYTES
from dbg_wire.messages.declared import AnswerBody, Finding, Kind, Message, PromptState, Sender, body_of
from dbg_wire.records.ranks import Limit, Place, Placement, RankIdentity, RankProcess, RankState, Stack
from dbg_wire.records.record import (
    MAX_RANK,
    Age,
    Count,
    FreeText,
    Integer,
    Integers,
    InvalidMessage,
    Items,
    Key,
    Path,
    Pid,
    RankNumber,
    Record,
    Sentence,
    Serial,
    Texts,
    Word,
    characters,
    elements,
    fitted,
    integers,
)

REPORTED_STATES = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD})
"""The states that a rank reports itself; the broker infers the others from a rank's silence."""

Size = Annotated[int, integers(0, MAX_RANK)]


class StopInfo(Record):
    """The current stop: its number in this process, why, where, and for how many seconds already.

    The number is 0 if the stops can't be told from one another, and the place is empty if it is unknown.

    ``error`` is the exception of a crash, ``limit`` the time limit that ends first. ``lease`` is after how many seconds
    without a driver, or without a key of one, the stop ends by itself, and ``lease_seconds`` how many of them are left;
    None if the stop lasts until it is let go.
    """

    number: Serial
    reason: Word
    where: Place
    age: Age
    thread: FreeText
    error: FreeText = ""
    limit: Limit | None = None
    lease: Age | None = None
    lease_seconds: Age | None = None

    @property
    def text(self) -> str:
        """Return the exception and the time limit, as far as there are any."""
        return "; ".join(filter(None, (self.error, self.limit.text if self.limit is not None else "")))


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


MAX_ANCESTORS = 64
"""Process ids above a rank: launchers nest a dozen deep; a longer list is a mistake."""

ChildNumber = Annotated[int, integers(1, 10**6)]

SignalNumber = Annotated[int, integers(1, 64)]

ProcessSecret = Annotated[str, characters(64)]

Ancestors = Annotated[tuple[Pid, ...], elements(MAX_ANCESTORS)]

KINDS_OF_AGENTS = frozenset({Kind.VALUE, Kind.ERROR, Kind.RUNNING})
"""The kinds of answers that an agent may give."""


class Register(Message, sender=Sender.AGENT):
    """Say which rank this is, and its state; the first message of every connection of an agent.

    ``child`` is the number that the broker gave this process among those of its rank, if it gave one. ``ancestors``
    are process ids, the parent first, by which the broker finds the rank of a child process. ``kernel``
    names kernel boot and process-id namespace; a broker with the same name can see whether the process is alive.
    ``secret`` is known to this process, its guard and the broker alone: no other process takes the rank's place without
    it. ``placement`` is None for a session that is no rank of a job. ``epoch`` counts the connections on which this
    process has registered, this one included: of two brokers that list this rank, the one with the larger number has
    it. It is 0 if a guard speaks for the rank.
    """

    minor: RankNumber
    identity: RankIdentity
    placement: Placement | None
    child: ChildNumber | None
    process: RankProcess
    ancestors: Ancestors
    kernel: Path
    report: RankReport
    secret: ProcessSecret = ""
    epoch: Count = 0


class Goodbye(Message, sender=Sender.AGENT):
    """Say that this process ends, with its exit status if it is known (negative for a signal).

    ``error`` is the exception that ends it, ``frames`` the traceback of that exception, outermost first. With
    ``finalizes`` the process goes on into MPI_Finalize.
    """

    exit: Integer | None
    error: FreeText = ""
    finalizes: bool = False
    frames: Stack = ()


class Answer(Message, sender=Sender.AGENT):
    """Answer a broker's Ask; ``body`` is an AnswerBody.

    ``age`` is for how many seconds the rank has been where the body's ``frames`` say; None if that is unknown. It is
    not in the body, since the bodies of many ranks are equal but for it.
    """

    request: Integer
    kind: Kind
    body: msgspec.Raw
    age: Age | None = None

    def __post_init__(self) -> None:
        """Refuse a kind that the broker alone gives, and a body that no terminal takes."""
        if self.kind not in KINDS_OF_AGENTS:
            raise InvalidMessage("answer", f".kind: {self.kind.value} is no agent's")
        if len(self.body) > MAX_ANSWER_BYTES:
            raise InvalidMessage("answer", f".body has {len(self.body)} bytes, above {MAX_ANSWER_BYTES}")


def answer_to(request: int, kind: Kind, text: str, *, age: float | None = None, **more: Any) -> Answer:
    """Return an answer with these fields of its body, or an error in place of a body that is too long."""
    body = body_of(fitted(AnswerBody, text=text, **more))
    if len(body) > MAX_ANSWER_BYTES:
        text = f"its answer has {len(body):,} bytes, and {MAX_ANSWER_BYTES:,} are the most; ask for less"
        kind, body = Kind.ERROR, body_of(fitted(AnswerBody, text=text))
    return fitted(Answer, request=request, kind=kind, body=body, age=age)


class Testimony(Message, sender=Sender.AGENT):
    """Say what the guard of the rank ``key`` has found; the first message of every connection of a guard.

    A guard is a process beside a rank that reports when the rank can't; it is no rank itself. ``signal`` is the number
    of the signal that ends or ended the process, if any; ``exit`` is the status of one that has ended by itself without
    a goodbye, if the kernel tells. ``age`` is the seconds since the rank was last known to run.
    ``frames`` is the last known stack, outermost first. ``registration`` is the Register that the rank would send: by
    it the broker lists a rank that fell silent before it registered. ``cause`` says who ended the process, if the guard
    has found that out: ``from the kernel's out-of-memory killer``; ``note`` says more. ``secret`` is that of the
    rank's process.
    """

    minor: RankNumber
    key: Key
    kind: Finding
    signal: SignalNumber | None = None
    age: Age = 0.0
    frames: Stack = ()
    registration: Register | None = None
    cause: Sentence = ""
    note: Sentence = ""
    secret: ProcessSecret = ""
    exit: Integer | None = None

    def __post_init__(self) -> None:
        """Refuse a registration of another rank."""
        if self.registration is not None and self.registration.identity.key != self.key:
            raise InvalidMessage("testimony", ".registration is that of another rank")


class Report(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Tell a change of a rank; the broker passes it to the terminals on that rank."""

    report: RankReport


class Applied(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Acknowledge input: all bytes of this generation below ``offset`` were taken by the debugger or discarded."""

    generation: Integer
    offset: Integer


class Discarded(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Say that ``count`` bytes of input, ending below ``offset``, will never reach the debugger, and why."""

    generation: Integer
    offset: Integer
    count: Integer
    reason: Sentence


class Pulse(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Answer a Probe: the interpreter runs.

    ``where`` is the place of the stop's thread, or else of the main thread; None while it is halted.
    ``frames`` is that thread's stack, outermost first: the last known stack if the rank falls silent later.
    """

    where: Place | None
    frames: Stack = ()


class Replied(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Settle a Reply: the debugger took it, or did not, with the reason."""

    prompt: Integer
    taken: bool
    reason: Sentence = ""


class Completions(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Answer a Complete with the texts that may replace ``line[begin:end]``; empty if nothing was found."""

    request: Integer
    matches: Texts


class Notice(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Tell the terminals on the rank a sentence that has no place on its screen or in its log.

    The broker sends one when somebody else acts at the rank by a question; ``ends_stop`` tells that the stop ends by
    that. With ``is_log`` it is the text of a log point, which the
    rank also sends while no terminal is there: clients that ask for it get it as :class:`Logged`.
    """

    text: FreeText
    ends_stop: bool = False
    is_log: bool = False
