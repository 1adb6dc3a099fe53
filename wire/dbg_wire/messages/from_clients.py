"""Messages of terminals. The broker forwards some of them to the rank."""

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
    """Send the name of this terminal, ``user@host``; the first message of every connection of a client.

    Other users see this name.
    """

    minor: Integer
    release: Sentence
    name: PersonName

    def __post_init__(self) -> None:
        """Reject a name with control characters, because they would act on the terminals that show the name."""
        if not self.name.isprintable():
            raise InvalidMessage("greet", ".name contains characters that are not printable")


class Subscribe(Message, sender=Sender.CLIENT):
    """Request a snapshot of all ranks and, unless ``once``, every change after the snapshot, without a gap.

    With ``logs`` the broker also sends the texts of log points of all ranks.
    """

    once: bool = False
    logs: bool = False


class Attach(Message, sender=Sender.CLIENT):
    """Attach to a rank, and detach from the previous rank; answered by Seat or Refusal.

    If another terminal has the keyboard, ``drive`` makes this terminal a watcher. ``resume`` is the generation that
    this terminal had before its connection broke; the terminal then still has the keyboard, unless another terminal has
    taken it. ``engine``, ``fallback_engine`` and ``frame`` go into the Viewers message to the rank.
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
    """Detach from the rank; the state of the rank does not change."""


class Take(Message, sender=Sender.CLIENT):
    """Take the keyboard of the rank that this terminal is attached to; answered by Seat or Refusal."""


class Resize(Message, sender=Sender.CLIENT):
    """Report the size of this terminal; only the driver's size is used."""

    rows: Integer
    columns: Integer


class Question(Asked, sender=Sender.CLIENT):
    """Request one action from each rank of ``keys``. Answers follow until all ranks have answered, or a Withdraw."""

    keys: Texts  # type: ignore[misc] # fields are keyword-only

    def __post_init__(self) -> None:
        """Reject an inquiry with a total text length above the limit for a question's text."""
        length = length_of(self.inquiry)
        if length > MAX_TEXT:
            raise InvalidMessage("question", f".inquiry has {length} characters, more than {MAX_TEXT}")


class Withdraw(Message, sender=Sender.CLIENT):
    """Cancel a question: the broker stops waiting for more answers, and the ranks' guards end their commands."""

    request: Integer


class Hang(Message, sender=Sender.CLIENT):
    """Report a verdict of ``why`` to the broker, which sends it to its event hook; there is no answer.

    ``job`` is the job's name, ``kind`` the kind of the verdict, and ``ranks`` a rank set, empty if the verdict names no
    rank. The message contains no command: another user may have sent the message, and a reader of the event might run
    the command.
    """

    job: Name
    kind: Word
    sentence: Sentence
    ranks: RankSetText = ""


class Reply(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Answer a prompt with one line or block, as the driver of this ``generation``; acknowledged by Replied.

    A client may send it again after each reconnect: a prompt accepts only one reply.
    """

    prompt: Integer
    generation: Integer
    text: FreeText


class Complete(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Request texts that may replace ``line[start:end]`` at this prompt; answered by Completions unless too late."""

    request: Integer
    prompt: Integer
    generation: Integer
    line: FreeText
    start: Integer
    end: Integer

    def __post_init__(self) -> None:
        """Reject a range that is not within the line."""
        if not 0 <= self.start <= self.end <= len(self.line):
            suffix = f" has the range {self.start} to {self.end} in a line of {len(self.line)} characters"
            raise InvalidMessage("complete", suffix)


class Interrupt(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Interrupt the command that the driver of this ``generation`` started, or break into the traced program."""

    generation: Integer


class Replay(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Request the log of a session from ``offset`` on; bytes that the log no longer contains are skipped.

    A rank sends only the first part of a long log, and the rest after further requests.
    """

    session: Serial
    offset: Count


class Repaint(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Request a redraw of the whole screen; sent by a client to the broker, and by the broker to the rank."""
