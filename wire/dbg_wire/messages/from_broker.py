"""The broker's own messages; a message that the broker passes on is in the module of its first sender."""

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
    decode_record,
    elements,
    fitted,
)


class BrokerAddress(Record):
    """The address of a broker, and the fingerprint of its certificate."""

    url: Sentence
    fingerprint: Sentence


class Welcome(Message, sender=Sender.BROKER):
    """Accept a Register or a Greet.

    ``address`` and ``child`` are the rank's, for an agent; ``uptime`` is in seconds. ``role`` is what a terminal's
    token lets it do, ``driver`` or ``watcher``; None for an agent. ``max_lease`` is for how many seconds nobody may
    type at a stop before the rank lets it end; None if stops may last for ever. ``brokers`` are all of its site, this
    one first: each lists its own ranks, and any of them takes the peer when this one is gone. A broker that is alone
    names none. It says welcome again when they change. ``nats_silent`` is for how many seconds NATS has not answered,
    which joins them; None while it answers, or without it.
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
    """Say which request can't be done and why, in a sentence for people; ``code`` is for programs.

    ``request`` is the number of the Question that is refused; None for another request.
    """

    code: Sentence
    text: Sentence
    request: Integer | None = None


class Audience(Message, sender=Sender.BROKER):
    """State which terminals look at the rank now.

    With ``viewers`` above zero a stopped rank opens its debugger at this size and sends its output; with none it keeps
    the debugger open and sends nothing. ``driven`` tells whether one of the terminals has the keyboard; input counts
    only if it carries this ``generation``. ``engine`` is the debugger that a terminal asked for, ``fallback_engine``
    the debugger to open if neither the stop nor the rank names one. ``frame`` is the frame that the driver wants to see
    first; it counts once for each ``generation``.
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
    """The progress of a rank that a held rank waits for; ``state`` is None for a rank that never registered."""

    rank: Integer
    arrived: Integer
    completed: Integer
    state: RankState | None


class Chosen(Message, sender=Sender.BROKER):
    """Tell a held rank the progress of the ranks it waits for: of all after its report, then of each that changed."""

    site: Sentence
    ranks: Annotated[tuple[ChosenRank, ...], Items]


class Kept(Message, sender=Sender.BROKER):
    """Tell a rank which other ranks of its job are kept after a crash; the rank delays its exit while there are any."""

    ranks: Integers


class Probe(Message, sender=Sender.BROKER):
    """Ask for a Pulse."""


class Ask(Asked, sender=Sender.BROKER):
    """Pass a question on to one rank; the rank gives up after ``seconds``."""


class Snapshot(Message, sender=Sender.BROKER):
    """List ranks, a page at a time; Changes follow after the page with ``last``."""

    ranks: Annotated[tuple[RankInfo, ...], Items]
    last: bool


class Change(Message, sender=Sender.BROKER):
    """Tell subscribers, and all terminals on that rank, the new state of one rank."""

    rank: RankInfo


class Logged(Message, sender=Sender.BROKER):
    """Carry the text of a rank's log point to a client that has asked for such texts.

    Of a flood a part comes: ``left_out`` is how many texts, of any rank, the client was not sent since the one before.
    """

    key: Sentence
    text: FreeText
    left_out: Count = 0


class Gone(Message, sender=Sender.BROKER):
    """Tell that an ended rank is no longer listed."""

    key: Sentence


class Seat(Message, sender=Sender.BROKER):
    """State a terminal's role at a rank.

    The broker sends it after Attach, Take, a handed-over keyboard, a rank that came back, or a log with a gap.
    ``generation`` is the number to tag input with, None for a watcher. ``driver`` names the user that types, None if
    there is none. A client that holds unacknowledged input sends it again if stop and generation are the same as
    before; otherwise the client tells its user that the input was discarded.
    """

    rank: RankInfo
    report: RankReport
    generation: Integer | None
    driver: Sentence | None
    watchers: Integer


class RankAnswer(AnswerBody):
    """The answer of one rank, as programs use it: no message has it."""

    # mypy does not see that the fields of the base class are given by name, too.
    key: Sentence  # type: ignore[misc]
    kind: Kind  # type: ignore[misc]
    age: Age | None = None


_BODY = AnswerBody.__struct_fields__


class SameAnswer(Record):
    """An answer, and the ranks of a question that have given it.

    ``ages`` are those of the ranks, in the order of ``keys``, if any of them has one. ``body`` is an AnswerBody.
    """

    keys: Texts
    kind: Kind
    body: msgspec.Raw
    ages: Annotated[tuple[Age | None, ...], Items] = ()

    def each(self) -> Iterator[RankAnswer]:
        """Yield the answer of each rank; it is an error if the body can't be read."""
        kind, body = self.kind, self.body
        try:
            read: AnswerBody = decode_record(AnswerBody, bytes(body))
        except InvalidMessage as error:
            kind, read = Kind.ERROR, fitted(AnswerBody, text=f"its answer can't be read: {error}")
        fields = {name: getattr(read, name) for name in _BODY}
        # Ages that are not those of these ranks say nothing.
        ages = self.ages if len(self.ages) == len(self.keys) else (None,) * len(self.keys)
        for key, age in zip(self.keys, ages, strict=True):
            yield RankAnswer(key=key, kind=kind, age=age, **fields)


class Answers(Message, sender=Sender.BROKER):
    """Carry answers of ranks to the terminal that asked, as they come; the one with ``last`` ends the question.

    A rank that is not named by then has not answered: the terminal has withdrawn the question.
    """

    request: Integer
    answers: Annotated[tuple[SameAnswer, ...], Items] = ()
    last: bool = False
