"""The messages of terminals, some of which the broker passes on to the rank."""

from typing import Annotated

from dbg_wire.limits import MAX_TEXT
from dbg_wire.messages.declared import Asked, Message, Mode, Sender
from dbg_wire.records.record import (
    Count,
    FrameName,
    FreeText,
    Integer,
    InvalidMessage,
    Name,
    PersonName,
    Sentence,
    Serial,
    Texts,
    Word,
    characters,
    length_of,
)

RankSetText = Annotated[str, characters(of="0123456789,-/", is_shown=True)]


class Greet(Message, sender=Sender.CLIENT):
    """Name this terminal (``user@host``, shown to other users); the first message of every connection of a client."""

    minor: Integer
    release: Sentence
    name: PersonName

    def __post_init__(self) -> None:
        """Refuse a name that could act on the terminals that show it."""
        if not self.name.isprintable():
            raise InvalidMessage("greet", ".name has characters that are not printable")


class Subscribe(Message, sender=Sender.CLIENT):
    """Ask for a snapshot of all ranks and, unless ``once``, for every change after it; no change in between is lost.

    With ``logs`` the texts of log points of all ranks come, too.
    """

    once: bool = False
    logs: bool = False


class Attach(Message, sender=Sender.CLIENT):
    """Attach to a rank, and detach from the rank before; answered by Seat or Refusal.

    If another terminal has the keyboard, ``drive`` makes this one a watcher. ``resume`` is the generation that this
    terminal held before its connection broke: it keeps the keyboard if no other terminal took it since. ``engine``,
    ``fallback_engine`` and ``frame`` are for the rank's Audience.
    """

    key: Sentence
    mode: Mode
    rows: Integer
    columns: Integer
    colors: Integer
    engine: Word | None = None
    fallback_engine: Word | None = None
    resume: Serial | None = None
    frame: FrameName = ""


class Detach(Message, sender=Sender.CLIENT):
    """Leave the rank; the rank stays as it is."""


class Take(Message, sender=Sender.CLIENT):
    """Take the keyboard of the rank that this terminal is attached to; answered by Seat or Refusal."""


class Resize(Message, sender=Sender.CLIENT):
    """Tell the size that this terminal offers; only the driver's counts."""

    rows: Integer
    columns: Integer


class Question(Asked, sender=Sender.CLIENT):
    """Ask every named rank for one action; answered by Answers until all ranks have answered, or Withdraw."""

    keys: Texts  # type: ignore[misc] # fields are given by name

    def __post_init__(self) -> None:
        """Refuse an inquiry whose texts are longer together than the text of a question may be."""
        length = length_of(self.inquiry)
        if length > MAX_TEXT:
            raise InvalidMessage("question", f".inquiry has {length} characters, above {MAX_TEXT}")


class Withdraw(Message, sender=Sender.CLIENT):
    """Give up a question: the ranks that have not answered are not waited for, and their guards end what they do."""

    request: Integer


class Hang(Message, sender=Sender.CLIENT):
    """Tell the broker a verdict of ``why``, for those who are told of events; nothing answers it.

    ``job`` is the job's name, ``kind`` the verdict's, ``ranks`` a rank set, empty if the verdict names none. It
    holds no command, since somebody who is told of the hang might type it.
    """

    job: Name
    kind: Word
    sentence: Sentence
    ranks: RankSetText = ""


class Reply(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Answer a prompt with one line or block, as the driver of this ``generation``; settled by Replied.

    A client may send it again after any number of reconnects: a prompt takes one reply.
    """

    prompt: Integer
    generation: Integer
    text: FreeText


class Complete(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Ask for texts that may replace ``line[begin:end]`` at this prompt; answered by Completions unless too late."""

    request: Integer
    prompt: Integer
    generation: Integer
    line: FreeText
    begin: Integer
    end: Integer

    def __post_init__(self) -> None:
        """Refuse a part that is not within the line."""
        if not 0 <= self.begin <= self.end <= len(self.line):
            suffix = f" is about {self.begin} to {self.end} of {len(self.line)} characters"
            raise InvalidMessage("complete", suffix)


class Interrupt(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Interrupt the command that this ``generation``'s driver has started, or break into the traced program."""

    generation: Integer


class Replay(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Ask for the log of a session from ``offset`` on; bytes that the log no longer holds are left out.

    A rank sends a part of a long log, and the rest after further requests.
    """

    session: Serial
    offset: Count


class Repaint(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Ask for the whole screen to be drawn again; a client to the broker, the broker to the rank."""
