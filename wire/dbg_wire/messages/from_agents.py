"""State of a rank, and the messages that agents send. The broker forwards some of them to terminals.

A guard is an agent, too: it sends messages about its rank. A rank sends its complete state after every change.
"""

from typing import Annotated, Any

import msgspec

from dbg_wire.limits import MAX_ANSWER_BYTES
from dbg_wire.messages.declared import AnswerBody, Finding, Kind, Message, PromptState, Sender, body_of
from dbg_wire.records.numbers import ReplicaDigest, ReplicaGroup, WrongNumber
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
    clamp,
    elements,
    integers,
)

REPORTED_STATES = frozenset({RankState.RUNNING, RankState.STOPPED, RankState.HELD})
"""States that a rank reports itself; the broker infers the other states when a rank is silent."""

Size = Annotated[int, integers(0, MAX_RANK)]


class StopInfo(Record):
    """The current stop: its number in this process, reason, place, and age in seconds.

    The number is 0 in a session of a stock debugger, where stops can't be distinguished. The place is empty if it is
    unknown.

    ``error`` is the exception of a crash and ``limit`` the earliest time limit. The stop ends by itself after ``lease``
    seconds without a driver, or without a key from the driver; ``lease_seconds`` is the time left. Both are None if the
    stop has no lease.
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
        """The exception and the time limit, if any."""
        return "; ".join(filter(None, (self.error, self.limit.text if self.limit is not None else "")))


class Arrival(Record):
    """Counts of a rank's arrivals and completed stops at one site, which is a line with ``set_trace(ranks=…)``."""

    site: Sentence
    arrived: Integer
    completed: Integer


class Waiting(Record):
    """Condition that ends a hold: each of ``ranks`` has completed its ``count``-th stop at a site."""

    site: Sentence
    count: Integer
    ranks: Integers


class SessionInfo(Record):
    """The debugger that is open at the stop; ``rows`` and ``columns`` are the size of its screen."""

    number: Serial
    engine: Word
    rows: Size
    columns: Size


class PromptInfo(Record):
    """Prompt of a line debugger that waits for input; ``offset`` is the length of the session's log before the prompt.

    ``number`` counts the prompts of the process. A reply to any other prompt than the current one is too late.
    """

    number: Count
    offset: Count
    text: FreeText
    state: PromptState


class RankReport(Record):
    """Complete current state of a rank.

    ``generation`` is the number of the most recent driver that the rank knows of. ``applied`` counts the bytes of that
    driver's input that the debugger accepted or the rank discarded. ``stepping`` means that the stopped thread is
    executing a step; the state is ``running``, but the stop has not ended. ``breakpoints`` counts the breakpoints that
    may stop the rank again, ``queued`` the threads that wait for their own stop. ``prompt`` is the prompt of a line
    debugger, if any. ``arrivals`` are the sites where this rank was chosen to stop. ``waits`` is the condition that
    ends its hold. ``passed`` says where the program last skipped a stop because it had no broker, and why it had none;
    it is the end of a sentence.
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
        """Reject a state that only the broker infers."""
        if self.state not in REPORTED_STATES:
            raise InvalidMessage("rankreport", f".state: {self.state.value} is not a state that a rank reports")


MAX_ANCESTORS = 64
"""Maximum number of ancestor processes of a rank: launchers nest a dozen deep; a longer list is a mistake."""

ChildNumber = Annotated[int, integers(1, 10**6)]

SignalNumber = Annotated[int, integers(1, 64)]

ProcessSecret = Annotated[str, characters(64)]

Ancestors = Annotated[tuple[Pid, ...], elements(MAX_ANCESTORS)]

KINDS_OF_AGENTS = frozenset({Kind.VALUE, Kind.ERROR, Kind.RUNNING})
"""Kinds of answers that an agent may send."""


class Register(Message, sender=Sender.AGENT):
    """Register a rank with its identity and state; the first message of every connection of an agent.

    ``child`` is the number that the broker assigned to this process among the processes of its rank, if any.
    ``ancestors`` are process ids, parent first; the broker uses them to find the rank of a child process. ``kernel``
    identifies the kernel boot and process-id namespace; a broker with the same value can check if the process is
    alive. Only this process, its guard and the broker know ``secret``, so no other process can replace the rank.
    ``placement`` is None for a session that is not a rank of a job. ``epoch`` counts the registrations of this process,
    including this one. If two brokers list the rank, it is connected to the broker that lists the higher epoch.
    ``epoch`` is 0 if a guard registers the rank.
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
    """Announce the end of this process, with its exit status if known (negative for a signal).

    ``error`` is the exception that ends it, ``frames`` the traceback of that exception, outermost first. With
    ``finalizes`` the process then enters MPI_Finalize.
    """

    exit: Integer | None
    error: FreeText = ""
    finalizes: bool = False
    frames: Stack = ()


class Answer(Message, sender=Sender.AGENT):
    """Answer an Ask of the broker; ``body`` is an AnswerBody.

    ``age`` is the time in seconds that the rank has spent at the body's ``frames``, or None if it is unknown. It is
    not part of the body, so the bodies of many ranks are equal.
    """

    request: Integer
    kind: Kind
    body: msgspec.Raw
    age: Age | None = None

    def __post_init__(self) -> None:
        """Reject a kind that agents do not send, and a body that is too long for terminals."""
        if self.kind not in KINDS_OF_AGENTS:
            raise InvalidMessage("answer", f".kind: {self.kind.value} is not sent by agents")
        if len(self.body) > MAX_ANSWER_BYTES:
            raise InvalidMessage("answer", f".body has {len(self.body)} bytes, above {MAX_ANSWER_BYTES}")


def answer_to(request: int, kind: Kind, text: str, *, age: float | None = None, **more: Any) -> Answer:
    """Build an answer with these fields in its body, or an error if the body is too long."""
    body = body_of(clamp(AnswerBody, text=text, **more))
    if len(body) > MAX_ANSWER_BYTES:
        text = f"its answer has {len(body):,} bytes, more than {MAX_ANSWER_BYTES:,}; request less"
        kind, body = Kind.ERROR, body_of(clamp(AnswerBody, text=text))
    return clamp(Answer, request=request, kind=kind, body=body, age=age)


class GuardReport(Message, sender=Sender.AGENT):
    """Report the finding of the guard of the rank ``key``; the first message of every connection of a guard.

    A guard is a process next to a rank. It reports when the rank can't, and is not a rank itself. ``signal`` is the
    number of the signal that ends or ended the process, if any. ``exit`` is the status of a process that ended by
    itself without a goodbye, if the kernel reports it. ``age`` is the time in seconds since the rank was last known to
    run. ``frames`` is the last known stack, outermost first. ``registration`` is the Register of the rank; it lets the
    broker list a rank that fell silent before it registered. ``cause`` names what ended the process, if known: ``from
    the kernel's out-of-memory killer``; ``note`` has more details. ``secret`` is the secret of the rank's process.
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
        """Reject a registration of another rank."""
        if self.registration is not None and self.registration.identity.key != self.key:
            raise InvalidMessage("guard_report", ".registration belongs to another rank")


class Report(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Report the state of a rank after a change; the broker forwards it to the terminals at that rank."""

    report: RankReport


class Applied(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Acknowledge input: all bytes of this generation below ``offset`` were accepted by the debugger or discarded."""

    generation: Integer
    offset: Integer


class Discarded(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Report that the ``count`` bytes of input before ``offset`` will never reach the debugger, and why."""

    generation: Integer
    offset: Integer
    count: Integer
    reason: Sentence


class ProbeReply(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Answer a Probe: the interpreter runs.

    ``where`` is the place of the stopped thread, or otherwise of the main thread; it is None while the thread is
    halted. ``frames`` is the stack of that thread, outermost first. If the rank falls silent later, this is its last
    known stack.
    """

    where: Place | None
    frames: Stack = ()


class Replied(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Acknowledge a Reply: the debugger accepted it, or rejected it for a reason."""

    prompt: Integer
    taken: bool
    reason: Sentence = ""


class Completions(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Answer a Complete with texts that may replace ``line[start:end]``; may be empty."""

    request: Integer
    matches: Texts


class Digests(Message, sender=Sender.AGENT):
    """Report digests of replicated tensors, in the order of the steps."""

    rows: Annotated[tuple[ReplicaDigest, ...], Items]


class Differs(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Report that the replicas of rank ``odd`` differ from the replicas of other ranks in its group.

    The broker sends the message to one of these ranks. The rank returns it with the digest of ``each`` tensor, and the
    broker forwards it to rank ``odd``, which stops at ``wrong`` and adds the name of the tensor.
    """

    group: ReplicaGroup
    odd: RankNumber
    wrong: WrongNumber
    each: Texts = ()


class Notice(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Show a sentence at the terminals of a rank, outside of its screen and its log.

    The broker sends a notice when another user acts on the rank by a question; ``ends_stop`` means that this ends the
    stop. With ``is_log`` the text comes from a log point. A rank sends it even without a terminal: clients that
    subscribe to log texts receive it as :class:`Logged`.
    """

    text: FreeText
    ends_stop: bool = False
    is_log: bool = False
