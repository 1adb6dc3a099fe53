"""Messages that the broker sends itself. A forwarded message is in the module of its original sender."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from dbg_wire import limits
from dbg_wire.messages.declared import AnswerBody, Asked, Kind, Message, Sender
from dbg_wire.messages.from_agents import RankReport
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.records.record import (
    Age,
    Count,
    FrameName,
    FreeText,
    Integer,
    Integers,
    InvalidMessage,
    Items,
    Real,
    Record,
    Sentence,
    Texts,
    clamp,
    decode_record,
    elements,
)


class BrokerAddress(Record):
    """Address of a broker, and the fingerprint of its certificate."""

    url: Sentence
    fingerprint: Sentence


class Welcome(Message, sender=Sender.BROKER):
    """Accept a Register, GuardReport or Greet; sent again when ``brokers`` or the rank's address changes.

    ``address`` and ``child`` are set for an agent; ``uptime`` is in seconds. ``role`` is the role of a terminal's
    token, ``driver`` or ``watcher``; it is None for an agent. ``max_lease`` is the maximum time in seconds that a stop
    lasts without any input, or None for no limit. ``brokers`` are all brokers of the cluster, this one first. Each
    broker lists its own ranks. When this broker is gone, any other broker accepts the peer. A single broker sends an
    empty list. ``nats_silent`` is the time in seconds for which NATS, which connects the brokers, has not answered. It
    is None while NATS answers, or without NATS.
    """

    minor: Integer
    release: Sentence
    host: Sentence
    pid: Integer
    uptime: Real
    address: Sentence | None = None
    child: Integer | None = None
    role: Sentence | None = None
    max_lease: Age | None = None
    brokers: Annotated[tuple[BrokerAddress, ...], elements(limits.MAX_BROKERS)] = ()
    nats_silent: Age | None = None


class Refusal(Message, sender=Sender.BROKER):
    """Reject a request; ``text`` gives the reason in a sentence for people, and ``code`` is for programs.

    ``request`` is the number of the rejected Question; None for another message.
    """

    code: Sentence
    text: Sentence
    request: Integer | None = None


class Viewers(Message, sender=Sender.BROKER):
    """Report to a rank which terminals are attached to it.

    If ``viewers`` is above zero, a stopped rank opens its debugger with this number of rows and columns, and sends the
    output. Without viewers the rank keeps the debugger open and sends no output. ``driven`` means that one of the
    terminals has the keyboard. Only input with this ``generation`` is accepted. ``engine`` is the debugger that a
    terminal requested; ``fallback_engine`` is the debugger to open if the stop and the rank name none. ``frame`` is the
    frame that the driver wants to see first; it applies once for each ``generation``.
    """

    viewers: Integer
    generation: Integer
    rows: Integer
    columns: Integer
    colors: Integer
    engine: Sentence | None = None
    fallback_engine: Sentence | None = None
    driven: bool = False
    frame: FrameName = ""


class ChosenRank(Record):
    """Progress of a rank that a held rank waits for; ``state`` is None for a rank that never registered."""

    rank: Integer
    arrived: Integer
    completed: Integer
    state: RankState | None


class Chosen(Message, sender=Sender.BROKER):
    """Report to a held rank the progress of the ranks it waits for.

    The first message has all these ranks, and each later message only those whose progress has changed.
    """

    site: Sentence
    ranks: Annotated[tuple[ChosenRank, ...], Items]


class KeptRanks(Message, sender=Sender.BROKER):
    """Report to a rank which other ranks of its job are kept after a crash; while there are any, it delays its exit."""

    ranks: Integers


class Probe(Message, sender=Sender.BROKER):
    """Request a ProbeReply."""


class Ask(Asked, sender=Sender.BROKER):
    """Forward a terminal's question to one rank; the rank cancels the work after ``seconds``."""


class Snapshot(Message, sender=Sender.BROKER):
    """List ranks, one page per message; Changes follow after the page with ``last``."""

    ranks: Annotated[tuple[RankInfo, ...], Items]
    last: bool


class Change(Message, sender=Sender.BROKER):
    """Send the new state of one rank to subscribers and to all terminals at that rank."""

    rank: RankInfo


class Logged(Message, sender=Sender.BROKER):
    """Send the text of a rank's log point to a client that has subscribed to such texts.

    The broker drops texts during a flood: ``left_out`` is the number of texts, of any rank, that it has dropped since
    the previous message.
    """

    key: Sentence
    text: FreeText
    left_out: Count = 0


class Gone(Message, sender=Sender.BROKER):
    """Report that an ended rank is no longer listed."""

    key: Sentence


class Seat(Message, sender=Sender.BROKER):
    """Send a terminal its role at a rank.

    The broker sends it after Attach or Take, when the keyboard changes hands, when a rank has reconnected, and when a
    part of a log was dropped. ``generation`` is the number to tag input with; it is None for a watcher. ``driver`` is
    the user of the driver's terminal, None if there is none. If stop and generation have not changed, the client
    resends its unacknowledged input; otherwise it reports to the user that the input was discarded.
    """

    rank: RankInfo
    report: RankReport
    generation: Integer | None
    driver: Sentence | None
    watchers: Integer


class RankAnswer(AnswerBody):
    """Answer of one rank, for use in programs; it is not part of a message."""

    # mypy does not see that the fields of the base class are keyword-only, too.
    key: Sentence  # type: ignore[misc]
    kind: Kind  # type: ignore[misc]
    age: Age | None = None


_BODY = AnswerBody.__struct_fields__


class SameAnswer(Record):
    """An answer, and all ranks that gave the same one.

    ``ages`` are the ages of the ranks' answers in the order of ``keys``, or empty if no answer has an age. ``body`` is
    an AnswerBody.
    """

    keys: Texts
    kind: Kind
    body: msgspec.Raw
    ages: Annotated[tuple[Age | None, ...], Items] = ()

    def each(self) -> Iterator[RankAnswer]:
        """Yield the answer of each rank. If the body can't be decoded, the answer is an error."""
        kind, body = self.kind, self.body
        try:
            read: AnswerBody = decode_record(AnswerBody, bytes(body))
        except InvalidMessage as error:
            kind, read = Kind.ERROR, clamp(AnswerBody, text=f"its answer can't be read: {error}")
        fields = {name: getattr(read, name) for name in _BODY}
        # If the numbers of ages and ranks differ, no age can be assigned to its rank.
        ages = self.ages if len(self.ages) == len(self.keys) else (None,) * len(self.keys)
        for key, age in zip(self.keys, ages, strict=True):
            yield RankAnswer(key=key, kind=kind, age=age, **fields)


class Answers(Message, sender=Sender.BROKER):
    """Send answers of ranks to the terminal that asked, as they arrive; the message with ``last`` ends the question.

    A rank without an answer in any of the messages did not answer before the terminal withdrew the question.
    """

    request: Integer
    answers: Annotated[tuple[SameAnswer, ...], Items] = ()
    last: bool = False
