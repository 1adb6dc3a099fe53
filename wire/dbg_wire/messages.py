"""The closed union of control messages, each saying who may send it.

Messages are frozen and restate rather than narrate: a report says all that is true of a rank now, so that a peer
that missed any number of earlier ones is right again after one. ``PROTOCOL.md`` beside this file is normative.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar, Union, get_args

from .ranks import Breakpoint, Coordinate, Place, RankInfo, RankState


class Sender(str, enum.Enum):
    """Name the three roles."""

    AGENT = "agent"
    BROKER = "broker"
    CLIENT = "client"


class Mode(str, enum.Enum):
    """Say how a terminal attaches: type, look only, or take the keyboard from whoever has it."""

    DRIVE = "drive"
    WATCH = "watch"
    TAKE = "take"


class Action(str, enum.Enum):
    """Name what a question asks of each rank."""

    CONTINUE = "continue"
    KILL = "kill"
    SCREEN = "screen"
    EVAL = "eval"
    """The value of an expression in the stopped thread; with ``live`` also in a running rank, broken into for it."""
    COMMAND = "command"
    """A debugger's command, and what it printed or where it led."""
    WHERE = "where"
    """The stack of the stop's thread, or of the main thread, of running ranks too."""
    INTERRUPT = "interrupt"
    """Break into a running rank."""
    RELEASE = "release"
    """Let a held rank go on."""


class PromptState(str, enum.Enum):
    """Say what a line debugger waits for, so that the terminal knows how to edit and complete it."""

    COMMAND = "command"
    """A command or a statement, at the debugger's own prompt."""
    MORE = "more"
    """The rest of a statement that is not complete yet."""
    COMMANDS = "commands"
    """Commands for a breakpoint, until ``end``."""
    INTERACT = "interact"
    """A statement in ``interact``."""
    INPUT = "input"
    """A line for the program's own ``input()`` or ``sys.stdin``, in what a command runs."""
    CONFIRM = "confirm"
    """An answer to the debugger's question."""


class Kind(str, enum.Enum):
    """Say what sort of answer one rank gave; ``silent``, ``lost`` and ``running`` are the broker's own words."""

    VALUE = "value"
    ERROR = "error"
    RUNNING = "running"
    SILENT = "silent"
    LOST = "lost"


class Finding(str, enum.Enum):
    """Say what a rank's guard has found."""

    STUCK = "stuck"
    """The interpreter has not run for a while: it is in C code that keeps it from every thread."""
    SUSPENDED = "suspended"
    """The process has not run for a while, since a signal or a tracer stopped it."""
    FATAL = "fatal"
    """A fatal signal came; the process ends by it, unless the program catches that signal itself."""
    ENDED = "ended"
    """The process was ended by a signal."""


# ------------------------------------------------------------------------------------------------ parts of messages


@dataclass(frozen=True, slots=True, kw_only=True)
class StopInfo:
    """Describe the current stop: its number in this process, why, where, and for how many seconds already.

    ``detail`` is the exception of a crash, or which clock will ring first, in a sentence.
    """

    number: int
    reason: str
    where: Place
    age: float
    thread: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Count how often this rank, chosen to stop there, has arrived at a site and has completed its stop there."""

    site: str
    arrived: int
    completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Say that this rank is held at a site, on its ``count``-th visit, until all these ranks have completed that."""

    site: str
    count: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRank:
    """Tell a held rank how far one that it waits for is; ``state`` is None for a rank that never registered."""

    rank: int
    arrived: int
    completed: int
    state: RankState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """Describe the debugger open on the stop; ``rows`` and ``columns`` are its screen's."""

    number: int
    engine: str
    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInfo:
    """Describe the line that a debugger waits for; ``offset`` is the length of the session's log before it.

    ``number`` counts the prompts of the process: a reply to any other prompt than the current one comes too late.
    """

    number: int
    offset: int
    text: str
    state: PromptState


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """State all that is true of a rank now.

    ``generation`` is the last driver's number that the rank knows; ``applied`` counts the bytes of that driver's
    input which the debugger took or the rank discarded. ``stepping`` means that the stop's thread runs to the end of
    a step; then the state is ``running`` while the stop goes on. ``breakpoints`` counts those that may stop it again,
    ``queued`` the threads that wait for their own stop. ``prompt`` is what a line debugger waits for, if it does.
    ``arrivals`` are the sites where this rank was chosen to stop, ``waits`` is what it is held for.
    ``user_breakpoints`` are those that people have set, to be set again in a later job; they stay when a debugger is
    left in a way that lets the rank run past them, until the next one is open.
    """

    state: RankState
    stop: StopInfo | None = None
    session: SessionInfo | None = None
    stepping: bool = False
    breakpoints: int = 0
    queued: int = 0
    generation: int = 0
    applied: int = 0
    prompt: PromptInfo | None = None
    arrivals: tuple[Arrival, ...] = ()
    waits: Waiting | None = None
    user_breakpoints: tuple[Breakpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAnswer:
    """Carry one rank's answer to a question.

    ``rows`` is a screen's text, ``frames`` a stack, outermost first. ``exact`` is the digest of a value's whole content
    and ``digest`` the same with memory addresses taken out; empty ones mean that the whole was not looked at.
    """

    key: str
    kind: Kind
    text: str
    rows: tuple[str, ...] = ()
    digest: str = ""
    exact: str = ""
    frames: tuple[Place, ...] = ()


# --------------------------------------------------------------------------------------------------- agent to broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Say who this rank is and what is true of it; the first message of every connection of an agent.

    ``ancestors`` are process ids, the parent first: by them the broker knows a rank's child. ``kernel`` names kernel
    boot and process-id namespace; a broker that has the same one can see whether the process is alive.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT})

    minor: int
    release: str
    key: str
    job: str
    run: str
    host: str
    rank: int
    local_rank: int | None
    world_size: int | None
    child: int | None
    pid: int
    ancestors: tuple[int, ...]
    kernel: str
    script: str
    directory: str
    python: str
    report: RankReport
    coordinates: tuple[Coordinate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """Say that this process ends, with its exit status if it is known (negative for a signal).

    ``detail`` is the exception that ends it, ``frames`` that one's traceback, outermost first.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT})

    exit: int | None
    detail: str = ""
    frames: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer a broker's Ask, as RankAnswer says."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT})

    request: int
    kind: Kind
    text: str
    rows: tuple[str, ...] = ()
    digest: str = ""
    exact: str = ""
    frames: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """Say what the guard of the rank ``key`` has found; the first message of every connection of a guard.

    A guard is the process beside a rank that lives on where the rank can't speak; it is no rank. ``signal`` is the
    number of the signal that ends or ended the process, if one does. ``core`` is the likely path of the core file, or
    ``|`` and the program that gets it; empty if there is none. ``age`` counts the seconds since the rank was last known
    to run. ``frames`` is the last stack known, outermost first. ``registration`` is what the rank would say if it
    could: by it a rank is listed that fell silent before it came to register.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT})

    minor: int
    key: str
    kind: Finding
    signal: int | None = None
    core: str = ""
    age: float = 0.0
    frames: tuple[Place, ...] = ()
    registration: Register | None = None


# -------------------------------------------------------------------------------------- agent to broker, and onwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Tell a change of a rank; the broker passes it to the terminals on that rank."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    report: RankReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Acknowledge input: all bytes of this generation below ``offset`` were taken by the debugger or discarded."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    generation: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Say that ``count`` bytes of input, ending below ``offset``, will never reach the debugger, and why."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    generation: int
    offset: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """Answer a Probe: the interpreter runs; ``where`` the stop's thread or the main thread is now, if it moves.

    ``frames`` is that thread's stack, outermost first: the last one that is known if the rank falls silent.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    where: Place | None
    frames: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """Settle a Reply: the debugger took it, or it came too late, with the reason."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    prompt: int
    taken: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """Answer a Complete with what the text between its ``begin`` and ``end`` may become; empty if nothing was found."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    request: int
    matches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Show the lines round the current one, from the rank's own files; ``first`` is the number of the first of them.

    ``breakpoints`` are line numbers. Sent after every stop of a line debugger, and when somebody sits down at it.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    where: Place
    first: int
    lines: tuple[str, ...]
    breakpoints: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Tell whoever looks at the rank something in a sentence that its screen or log has no place for."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.AGENT, Sender.BROKER})

    text: str


# --------------------------------------------------------------------------------------------------- broker to agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """State who looks at the rank now.

    With ``viewers`` above zero a stopped rank opens its debugger at this size and sends its output; with none it keeps
    the debugger open and sends nothing. ``driven`` tells whether one of them has the keyboard; input counts only if it
    bears this ``generation``. ``engine`` is the debugger that was asked for, ``fallback_engine`` the one to open where
    neither the stop nor the rank has a wish.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    viewers: int
    generation: int
    rows: int
    columns: int
    colors: int
    engine: str | None = None
    fallback_engine: str | None = None
    driven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Tell a held rank how far ranks are that it waits for: of all after its report, then of those that changed."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    site: str
    ranks: tuple[ChosenRank, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Tell a rank which others of its job are kept after a crash; it holds its own exit while there is one."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Ask for a Pulse."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})


# --------------------------------------------------------------------------------------------------- client to broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Greet:
    """Say who this terminal is (``user@host``, shown to others); the first message of every connection of a client."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})

    minor: int
    release: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Ask for a snapshot of all ranks and, unless ``once``, for every change after it, with nothing between lost."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})

    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Sit down at a rank, leaving the one before; answered by Seat or Refusal.

    Where somebody else types already, ``drive`` gives a watcher's seat. ``resume`` is the generation that this terminal
    held before its connection broke: it keeps the keyboard if nobody else took it since. ``engine`` and
    ``fallback_engine`` are for the rank's Audience.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})

    key: str
    mode: Mode
    rows: int
    columns: int
    colors: int
    engine: str | None = None
    fallback_engine: str | None = None
    resume: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detach:
    """Leave the rank; it stays as it is."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """Take the keyboard of the rank one is attached to; answered by Seat or Refusal."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Tell the size that this terminal offers; only the driver's counts."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})

    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Ask every named rank for one action; answered by one Answers at the deadline or before.

    ``text`` is the expression or command. With ``live`` running ranks are asked, too; with ``stats`` tensors are
    described by their figures as well. With ``parts`` no expression is evaluated: it asks for the parts of the value
    that was the last answer, as :mod:`dbg_wire.parts` writes it, and ``text`` is one that does nothing in older ranks.
    With ``withdrawn`` an ``interrupt`` that was asked for before is given up.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """Ask the broker to connect to a stock ``remote_pdb`` that listens on its own loopback; Dialled or Refusal."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT})

    host: str
    port: int


# ------------------------------------------------------------------------------------- client to broker, and onwards


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer a prompt with one line or block, as the driver of this ``generation``; settled by Replied.

    It may be sent again after any number of reconnects: a prompt takes one reply.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT, Sender.BROKER})

    prompt: int
    generation: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Ask what ``line[begin:end]`` may become at this prompt; answered by Completions, or not at all if too late."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT, Sender.BROKER})

    request: int
    prompt: int
    generation: int
    line: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """Interrupt what a command of this ``generation``'s driver runs, or break into the traced program."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT, Sender.BROKER})

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Ask for the log of a session from ``offset`` on; what the log no longer has is missing from what comes.

    A rank sends a part of a long log at once, and the rest when that is asked for.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT, Sender.BROKER})

    session: int
    offset: int


# ------------------------------------------------------------------------------------------- either side of the broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Pass a question on to one rank; what takes longer than ``seconds`` there is to be given up."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaint:
    """Ask for the whole screen to be drawn again; a client to the broker, the broker to the rank."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.CLIENT, Sender.BROKER})


# --------------------------------------------------------------------------------------------------- broker to client


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Accept a Register or a Greet.

    ``address`` and ``child`` are the rank's, for an agent; ``uptime`` is in seconds.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    minor: int
    release: str
    host: str
    pid: int
    uptime: float
    address: str | None = None
    child: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """List ranks, a page at a time; after the page with ``last`` changes follow."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    ranks: tuple[RankInfo, ...]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Tell what is now true of one rank; to subscribers, and to the terminals on it whether subscribed or not."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    rank: RankInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Tell that an ended rank is no longer listed."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """State one's place at a rank: after Attach, Take, a handed-over keyboard, a rank that came back, a log with a gap.

    ``generation`` is the number to tag input with, None for a watcher. ``driver`` names who types, None if nobody.
    A client that holds unacknowledged input sends it again if stop and generation are the same as before, else says
    that it was discarded.
    """

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    rank: RankInfo
    report: RankReport
    generation: int | None
    driver: str | None
    watchers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Carry the answers of all ranks that were asked, a page at a time; silence is an answer, too."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    request: int
    answers: tuple[RankAnswer, ...] = field(default=())
    last: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """Answer a Dial: the session is listed under this key."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Say which request can't be done and why, in a sentence for people; ``code`` is for programs."""

    sender: ClassVar[frozenset[Sender]] = frozenset({Sender.BROKER})

    code: str
    text: str


# ``Union`` and not ``|``: this alias is evaluated, and 3.10 must evaluate it too.
Message = Union[  # noqa: UP007
    Register,
    Goodbye,
    Answer,
    Testimony,
    Report,
    Applied,
    Discarded,
    Pulse,
    Replied,
    Completions,
    Source,
    Notice,
    Audience,
    Chosen,
    Kept,
    Probe,
    Greet,
    Subscribe,
    Attach,
    Detach,
    Take,
    Resize,
    Question,
    Dial,
    Reply,
    Complete,
    Interrupt,
    Replay,
    Ask,
    Repaint,
    Welcome,
    Snapshot,
    Change,
    Gone,
    Seat,
    Answers,
    Dialled,
    Refusal,
]

MESSAGES: tuple[type[Message], ...] = get_args(Message)
"""Every message class, in the order of the union."""


class RefusalCode:
    """Name the codes of Refusal."""

    UNKNOWN_TYPE = "unknown-type"
    BAD_MESSAGE = "bad-message"
    NO_SUCH_RANK = "no-such-rank"
    NOT_ATTACHED = "not-attached"
    NOT_DRIVING = "not-driving"
    ROLE = "role"
    FULL = "full"
    GONE = "gone"
    CANT_DIAL = "cant-dial"
