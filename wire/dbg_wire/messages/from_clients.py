"""What terminals say, and what of it the broker passes on to the rank."""

from ..bounds import Count, PersonName, Sentence, Serial, Word
from .declared import Message
from .vocabulary import Action, Mode, Sender


class Greet(Message, sender=Sender.CLIENT):
    """Say who this terminal is (``user@host``, shown to others); the first message of every connection of a client."""

    minor: int
    release: Sentence
    name: PersonName


class Subscribe(Message, sender=Sender.CLIENT):
    """Ask for a snapshot of all ranks and, unless ``once``, for every change after it, with nothing between lost."""

    once: bool = False


class Attach(Message, sender=Sender.CLIENT):
    """Sit down at a rank, leaving the one before; answered by Seat or Refusal.

    Where somebody else types already, ``drive`` gives a watcher's seat. ``resume`` is the generation that this terminal
    held before its connection broke: it keeps the keyboard if nobody else took it since. ``engine`` and
    ``fallback_engine`` are for the rank's Audience.
    """

    key: Sentence
    mode: Mode
    rows: int
    columns: int
    colors: int
    engine: Word | None = None
    fallback_engine: Word | None = None
    resume: Serial | None = None


class Detach(Message, sender=Sender.CLIENT):
    """Leave the rank; it stays as it is."""


class Take(Message, sender=Sender.CLIENT):
    """Take the keyboard of the rank one is attached to; answered by Seat or Refusal."""


class Resize(Message, sender=Sender.CLIENT):
    """Tell the size that this terminal offers; only the driver's counts."""

    rows: int
    columns: int


class Question(Message, sender=Sender.CLIENT):
    """Ask every named rank for one action; answered by one Answers at the deadline or before.

    ``text`` is the expression or command. With ``live`` running ranks are asked, too; with ``stats`` tensors are
    described by their figures as well. With ``parts`` no expression is evaluated: it asks for the parts of the value
    that was the last answer, as :mod:`dbg_wire.parts` writes it, and ``text`` is one that does nothing in older ranks.
    With ``withdrawn`` an ``interrupt`` that was asked for before is given up. With ``stops`` a ``where`` asks for the
    states of the job's stops instead, as :mod:`dbg_wire.stop_states` writes them; older ranks answer with a stack.
    """

    request: int
    keys: tuple[str, ...]
    action: Action
    seconds: float
    rows: int = 24
    columns: int = 80
    text: str = ""
    live: bool = False
    stats: bool = False
    parts: str = ""
    withdrawn: bool = False
    stops: bool = False


class Dial(Message, sender=Sender.CLIENT):
    """Ask the broker to connect to a stock ``remote_pdb`` that listens on its own loopback; Dialled or Refusal."""

    host: Sentence
    port: int


class Reply(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Answer a prompt with one line or block, as the driver of this ``generation``; settled by Replied.

    It may be sent again after any number of reconnects: a prompt takes one reply.
    """

    prompt: int
    generation: int
    text: str


class Complete(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Ask what ``line[begin:end]`` may become at this prompt; answered by Completions, or not at all if too late."""

    request: int
    prompt: int
    generation: int
    line: str
    begin: int
    end: int

    def contradiction(self) -> str:
        """Refuse what is not within the line."""
        if 0 <= self.begin <= self.end <= len(self.line):
            return ""
        return f" is about {self.begin} to {self.end} of {len(self.line)} characters"


class Interrupt(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Interrupt what a command of this ``generation``'s driver runs, or break into the traced program."""

    generation: int


class Replay(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Ask for the log of a session from ``offset`` on; what the log no longer has is missing from what comes.

    A rank sends a part of a long log at once, and the rest when that is asked for.
    """

    session: Serial
    offset: Count


class Repaint(Message, sender=(Sender.CLIENT, Sender.BROKER)):
    """Ask for the whole screen to be drawn again; a client to the broker, the broker to the rank."""
