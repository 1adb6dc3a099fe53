"""What agents say, and what of it the broker passes on to terminals. A guard speaks as the agent that it guards."""

from typing import Annotated

from ..bounds import (
    MAX_RANK,
    Age,
    AtMost,
    Key,
    Line,
    Name,
    Number,
    OneOf,
    Path,
    Pid,
    RankNumber,
    Sentence,
    Word,
)
from ..ranks import Coordinate, Place, Stack
from .declared import Message
from .report import RankReport
from .vocabulary import Finding, Kind, Sender

MAX_ANCESTORS = 64
"""Process ids above a rank: launchers nest a dozen deep; more is no process tree."""

WorldSize = Annotated[int, Number(1, MAX_RANK)]

ChildNumber = Annotated[int, Number(1, 10**6)]

SignalNumber = Annotated[int, Number(1, 64)]

Ancestors = Annotated[tuple[Pid, ...], AtMost(MAX_ANCESTORS)]

Said = Annotated[Kind, OneOf(Kind.VALUE, Kind.ERROR, Kind.RUNNING)]
"""What an agent says of its answer; the other kinds are the broker's words."""


class Register(Message, sender=Sender.AGENT):
    """Say who this rank is and what is true of it; the first message of every connection of an agent.

    ``ancestors`` are process ids, the parent first: by them the broker knows a rank's child. ``kernel`` names kernel
    boot and process-id namespace; a broker that has the same one can see whether the process is alive.
    """

    minor: RankNumber
    release: Word
    key: Key
    job: Name
    run: Name
    host: Name
    rank: RankNumber
    local_rank: RankNumber | None
    world_size: WorldSize | None
    child: ChildNumber | None
    pid: Pid
    ancestors: Ancestors
    kernel: Path
    script: Path
    directory: Path
    python: Word
    report: RankReport
    coordinates: tuple[Coordinate, ...] = ()


class Goodbye(Message, sender=Sender.AGENT):
    """Say that this process ends, with its exit status if it is known (negative for a signal).

    ``detail`` is the exception that ends it, ``frames`` that one's traceback, outermost first.
    """

    exit: int | None
    detail: str = ""
    frames: Stack = ()


class Answer(Message, sender=Sender.AGENT):
    """Answer a broker's Ask, as RankAnswer says."""

    request: int
    kind: Said
    text: str
    rows: tuple[str, ...] = ()
    digest: str = ""
    exact: str = ""
    frames: Stack = ()


class Testimony(Message, sender=Sender.AGENT):
    """Say what the guard of the rank ``key`` has found; the first message of every connection of a guard.

    A guard is the process beside a rank that lives on where the rank can't speak; it is no rank. ``signal`` is the
    number of the signal that ends or ended the process, if one does. ``core`` is the likely path of the core file, or
    ``|`` and the program that gets it; empty if there is none. ``age`` counts the seconds since the rank was last known
    to run. ``frames`` is the last stack known, outermost first. ``registration`` is what the rank would say if it
    could: by it a rank is listed that fell silent before it came to register.
    """

    minor: RankNumber
    key: Key
    kind: Finding
    signal: SignalNumber | None = None
    core: Path = ""
    age: Age = 0.0
    frames: Stack = ()
    registration: Register | None = None

    def contradiction(self) -> str:
        """Refuse a registration of another rank."""
        is_other = self.registration is not None and self.registration.key != self.key
        return ".registration is that of another rank" if is_other else ""


class Report(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Tell a change of a rank; the broker passes it to the terminals on that rank."""

    report: RankReport


class Applied(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Acknowledge input: all bytes of this generation below ``offset`` were taken by the debugger or discarded."""

    generation: int
    offset: int


class Discarded(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Say that ``count`` bytes of input, ending below ``offset``, will never reach the debugger, and why."""

    generation: int
    offset: int
    count: int
    reason: Sentence


class Pulse(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Answer a Probe: the interpreter runs; ``where`` the stop's thread or the main thread is now, if it moves.

    ``frames`` is that thread's stack, outermost first: the last one that is known if the rank falls silent.
    """

    where: Place | None
    frames: Stack = ()


class Replied(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Settle a Reply: the debugger took it, or it came too late, with the reason."""

    prompt: int
    taken: bool
    reason: Sentence = ""


class Completions(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Answer a Complete with what the text between its ``begin`` and ``end`` may become; empty if nothing was found."""

    request: int
    matches: tuple[str, ...]


class Source(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Show the lines round the current one, from the rank's own files; ``first`` is the number of the first of them.

    ``breakpoints`` are line numbers. Sent after every stop of a line debugger, and when somebody sits down at it.
    """

    where: Place
    first: Line
    lines: tuple[str, ...]
    breakpoints: tuple[int, ...]


class Notice(Message, sender=(Sender.AGENT, Sender.BROKER)):
    """Tell whoever looks at the rank something in a sentence that its screen or log has no place for."""

    text: str
