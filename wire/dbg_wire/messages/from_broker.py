"""What the broker says itself, to agents and to terminals; what it passes on is with those who say it first."""

from ..bounds import Sentence
from ..ranks import Place, RankInfo, RankState
from ..records import Record
from .declared import Message
from .report import RankReport
from .vocabulary import Action, Kind, Sender


class Welcome(Message, sender=Sender.BROKER):
    """Accept a Register or a Greet.

    ``address`` and ``child`` are the rank's, for an agent; ``uptime`` is in seconds.
    """

    minor: int
    release: Sentence
    host: Sentence
    pid: int
    uptime: float
    address: Sentence | None = None
    child: int | None = None


class Refusal(Message, sender=Sender.BROKER):
    """Say which request can't be done and why, in a sentence for people; ``code`` is for programs."""

    code: Sentence
    text: Sentence


class Audience(Message, sender=Sender.BROKER):
    """State who looks at the rank now.

    With ``viewers`` above zero a stopped rank opens its debugger at this size and sends its output; with none it keeps
    the debugger open and sends nothing. ``driven`` tells whether one of them has the keyboard; input counts only if it
    bears this ``generation``. ``engine`` is the debugger that was asked for, ``fallback_engine`` the one to open where
    neither the stop nor the rank has a wish.
    """

    viewers: int
    generation: int
    rows: int
    columns: int
    colors: int
    engine: Sentence | None = None
    fallback_engine: Sentence | None = None
    driven: bool = False


class ChosenRank(Record):
    """Tell a held rank how far one that it waits for is; ``state`` is None for a rank that never registered."""

    rank: int
    arrived: int
    completed: int
    state: RankState | None


class Chosen(Message, sender=Sender.BROKER):
    """Tell a held rank how far ranks are that it waits for: of all after its report, then of those that changed."""

    site: Sentence
    ranks: tuple[ChosenRank, ...]


class Kept(Message, sender=Sender.BROKER):
    """Tell a rank which others of its job are kept after a crash; it holds its own exit while there is one."""

    ranks: tuple[int, ...]


class Probe(Message, sender=Sender.BROKER):
    """Ask for a Pulse."""


class Ask(Message, sender=Sender.BROKER):
    """Pass a question on to one rank; what takes longer than ``seconds`` there is to be given up."""

    request: int
    action: Action
    rows: int
    columns: int
    seconds: float = 10.0
    text: str = ""
    live: bool = False
    stats: bool = False
    parts: str = ""
    withdrawn: bool = False
    stops: bool = False


class Snapshot(Message, sender=Sender.BROKER):
    """List ranks, a page at a time; after the page with ``last`` changes follow."""

    ranks: tuple[RankInfo, ...]
    last: bool


class Change(Message, sender=Sender.BROKER):
    """Tell what is now true of one rank; to subscribers, and to the terminals on it whether subscribed or not."""

    rank: RankInfo


class Gone(Message, sender=Sender.BROKER):
    """Tell that an ended rank is no longer listed."""

    key: Sentence


class Seat(Message, sender=Sender.BROKER):
    """State one's place at a rank: after Attach, Take, a handed-over keyboard, a rank that came back, a log with a gap.

    ``generation`` is the number to tag input with, None for a watcher. ``driver`` names who types, None if nobody.
    A client that holds unacknowledged input sends it again if stop and generation are the same as before, else says
    that it was discarded.
    """

    rank: RankInfo
    report: RankReport
    generation: int | None
    driver: Sentence | None
    watchers: int


class RankAnswer(Record):
    """Carry one rank's answer to a question.

    ``rows`` is a screen's text, ``frames`` a stack, outermost first. ``exact`` is the digest of a value's whole content
    and ``digest`` the same with memory addresses taken out; empty ones mean that the whole was not looked at.
    """

    key: Sentence
    kind: Kind
    text: str
    rows: tuple[str, ...] = ()
    digest: str = ""
    exact: str = ""
    frames: tuple[Place, ...] = ()


class Answers(Message, sender=Sender.BROKER):
    """Carry the answers of all ranks that were asked, a page at a time; silence is an answer, too."""

    request: int
    answers: tuple[RankAnswer, ...] = ()
    last: bool = True


class Dialled(Message, sender=Sender.BROKER):
    """Answer a Dial: the session is listed under this key."""

    key: Sentence
