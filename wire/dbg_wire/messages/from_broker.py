"""The broker's own messages; a message that the broker passes on is in the module of its first sender."""

from collections.abc import Iterator
from typing import Annotated

from dbg_wire import limits
from dbg_wire.messages.declared import AnyInquiry, Message, Rows
from dbg_wire.messages.report import RankReport
from dbg_wire.messages.vocabulary import Action, Kind, Look, Sender
from dbg_wire.records.bounds import (
    Age,
    Count,
    FrameName,
    FreeText,
    Integer,
    Integers,
    Items,
    Real,
    Sentence,
    Texts,
    elements,
)
from dbg_wire.records.ranks import FoldedRanks, Place, RankInfo, RankState, ThreadStacks
from dbg_wire.records.record import Record


class BrokerAddress(Record):
    """The address of a broker, and the fingerprint of its certificate."""

    url: Sentence
    fingerprint: Sentence


class Welcome(Message, sender=Sender.BROKER):
    """Accept a Register or a Greet.

    ``address`` and ``child`` are the rank's, for an agent; ``uptime`` is in seconds. ``role`` is what a terminal's
    token lets it do, ``driver`` or ``watcher``; None for an agent. ``max_lease`` is for how many seconds nobody may
    type at a stop before the rank lets it end; None if stops may last for ever. ``brokers`` are all that know the same
    ranks, this one first, for when it is gone; a broker that is alone names none. It says welcome again when they
    change. ``nats_silent`` is for how many seconds NATS has not answered, so that ranks of other brokers can't be
    reached; None while it answers, or without it.
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


class Ask(Message, sender=Sender.BROKER):
    """Pass a question on to one rank; the rank gives up after ``seconds``. The other fields are those of Question."""

    request: Integer
    action: Action
    seconds: Real = 10.0
    text: FreeText = ""
    live: bool = False
    stats: bool = False
    inquiry: AnyInquiry | None = None
    withdrawn: bool = False
    threads: bool = False
    frame: FrameName = ""
    look: Look = Look.STACK
    asked: Count = 0


class Snapshot(Message, sender=Sender.BROKER):
    """List ranks, a page at a time; Changes follow after the page with ``last``.

    Those in ``folded`` are listed as well, if Subscribe asks for that, and ``ranks`` is empty then.
    """

    ranks: Annotated[tuple[RankInfo, ...], Items]
    last: bool
    folded: Annotated[tuple[FoldedRanks, ...], Items] = ()

    def each(self) -> Iterator[RankInfo]:
        """Yield all ranks of the page."""
        yield from self.ranks
        for folded in self.folded:
            yield from folded.each()


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


class RankAnswer(Record):
    """One rank's answer to a question.

    ``rows`` are a screen's lines, or what else a rank tells, each with its kind. ``frames`` is a stack, outermost
    first. ``exact`` is the digest of a value's whole content and ``digest`` the same without memory addresses; both are
    empty if the whole content was not read. ``age`` is for how many seconds the rank has been where ``frames`` says, or
    with ``at_least`` for how many it is known to have been; None if that is unknown. ``threads`` are all threads, if
    they were asked for. ``frame`` is where an expression or a command was run; None if it was not run. ``also`` are the
    keys of further ranks that have answered the very same but for ``age``, if the Question asks for that; ``ages`` are
    those of all its ranks then, if they have any.
    """

    key: Sentence
    kind: Kind
    text: FreeText
    rows: Rows = ()
    digest: FreeText = ""
    exact: FreeText = ""
    frames: Annotated[tuple[Place, ...], Items] = ()
    age: Age | None = None
    at_least: bool = False
    threads: ThreadStacks = ()
    frame: Place | None = None
    also: Texts = ()
    ages: Annotated[tuple[Age | None, ...], Items] = ()

    def each(self) -> Iterator["RankAnswer"]:
        """Yield the answer of each of its ranks."""
        if not self.also:
            yield self
            return
        keys = (self.key, *self.also)
        # Ages that are not those of its ranks say nothing.
        ages = self.ages if len(self.ages) == len(keys) else (self.age,) * len(keys)
        for key, age in zip(keys, ages, strict=True):
            yield self.replace(key=key, age=age, also=(), ages=())


class Answers(Message, sender=Sender.BROKER):
    """Carry the answers of all ranks that were asked, a page at a time; a silent rank has an answer, too."""

    request: Integer
    answers: Annotated[tuple[RankAnswer, ...], Items] = ()
    last: bool = True


class Progress(Message, sender=Sender.BROKER):
    """Tell who asked how far a question is, once it takes more than a second, and then at most once a second.

    ``waiting`` are the keys of the first ranks that have not answered.
    """

    request: Integer
    asked: Integer
    answered: Integer
    waiting: Texts = ()
