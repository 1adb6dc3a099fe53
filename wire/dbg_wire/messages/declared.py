"""What messages are made of: the words that they choose from, the rows of an answer, and the base of every message."""

import enum
import typing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from dbg_wire.records.evidence import (
    CollectiveSeen,
    GroupSeen,
    OtherProcess,
    ProcessSeen,
    SourceSeen,
    ThreadWait,
)
from dbg_wire.records.inspection import (
    BreakpointState,
    BreakpointsWish,
    CommandEnd,
    CommandLine,
    ExceptionSeen,
    Inspection,
    ScreenSize,
    SourceText,
    Variable,
)
from dbg_wire.records.ranks import Place, Stack, ThreadStacks
from dbg_wire.records.record import Count, FrameName, FreeText, Integer, Items, Real, Record, RecordType, encode_record
from dbg_wire.records.samples import GroupArrivals, RankSample, SampledPlace, SampleQuestion


class Sender(str, enum.Enum):
    """The three roles."""

    AGENT = "agent"
    BROKER = "broker"
    CLIENT = "client"


class Mode(str, enum.Enum):
    """How a terminal attaches: type, look only, or take the keyboard from the current driver."""

    DRIVE = "drive"
    WATCH = "watch"
    TAKE = "take"


class Action(str, enum.Enum):
    """The action that a question asks of each rank."""

    CONTINUE = "continue"
    KILL = "kill"
    SCREEN = "screen"
    EVAL = "eval"
    """The value of an expression in the stopped thread; with ``live`` also in a running rank, broken into for it."""
    COMMAND = "command"
    """A debugger's command; the answer is its output, or the place where the rank then stops."""
    WHERE = "where"
    """The stack of the stop's thread, or of the main thread, of running ranks too."""
    INTERRUPT = "interrupt"
    """Break into a running rank."""
    RELEASE = "release"
    """Let a held rank go on."""
    EXEC = "exec"
    """Run a command next to the rank. The guard does this and ``native``, also while the rank hangs."""
    NATIVE = "native"
    """The stack with its native frames, by a profiler that reads the memory of the rank."""
    INSPECT = "inspect"
    """A look into the stopped thread's values, in the form of :mod:`dbg_wire.records.inspection`."""
    BREAKPOINTS = "breakpoints"
    """Breakpoints to set or clear, of running ranks too, in the form of :mod:`dbg_wire.records.inspection`."""
    SAMPLE = "sample"
    """Arrivals at collectives, places and amounts of some seconds, in the form of :mod:`dbg_wire.records.samples`."""


GUARD_ACTIONS = frozenset({Action.EXEC, Action.NATIVE})
"""The actions that a rank's guard carries out."""


class Look(str, enum.Enum):
    """How much a ``where`` asks for; each adds to the one before."""

    STACK = "stack"
    """Where the rank is."""
    COLLECTIVES = "collectives"
    """The groups that the rank is in, and the collectives that it has not finished."""
    EVIDENCE = "evidence"
    """What each of its threads waits for, and its process."""


class PromptState(str, enum.Enum):
    """What a line debugger waits for; the terminal edits and completes the line accordingly."""

    COMMAND = "command"
    """A command or a statement, at the debugger's own prompt."""
    MORE = "more"
    """The rest of a statement that is not complete yet."""
    COMMANDS = "commands"
    """Commands for a breakpoint, until ``end``."""
    INTERACT = "interact"
    """A statement in ``interact``."""
    INPUT = "input"
    """A line for the program's own ``input()`` or ``sys.stdin``, in code that a command runs."""
    CONFIRM = "confirm"
    """An answer to the debugger's question."""


class Kind(str, enum.Enum):
    """The kind of one rank's answer: ``lost`` is the broker's, and ``silent`` that of the terminal that asked."""

    VALUE = "value"
    ERROR = "error"
    RUNNING = "running"
    SILENT = "silent"
    LOST = "lost"


class Finding(str, enum.Enum):
    """What a rank's guard has found."""

    STUCK = "stuck"
    """The interpreter has not run for a while: C code holds it and lets no thread run."""
    SUSPENDED = "suspended"
    """The process has not run for a while, since a signal or a tracer stopped it."""
    FATAL = "fatal"
    """A fatal signal came; the process ends by it, unless the program catches that signal itself."""
    ENDED = "ended"
    """The process has ended, by a signal or without a goodbye."""
    CALLED = "called"
    """The rank has called its guard, which is asked for something; the rank itself runs."""


class RefusalCode:
    """The codes of Refusal."""

    UNKNOWN_TYPE = "unknown-type"
    BAD_MESSAGE = "bad-message"
    NO_SUCH_RANK = "no-such-rank"
    NOT_ATTACHED = "not-attached"
    NOT_DRIVING = "not-driving"
    ROLE = "role"
    FULL = "full"
    GONE = "gone"
    TAKEN = "taken"


AnyRow = (
    FreeText
    | SourceSeen
    | GroupSeen
    | CollectiveSeen
    | ThreadWait
    | OtherProcess
    | ProcessSeen
    | Variable
    | SourceText
    | ExceptionSeen
    | BreakpointState
    | CommandEnd
    | RankSample
    | GroupArrivals
    | SampledPlace
)
"""A line of a screen, a piece of a command's output, or a record of what a rank tells."""

Rows = Annotated[tuple[AnyRow, ...], Items]

AnyInquiry = Inspection | BreakpointsWish | CommandLine | ScreenSize | SampleQuestion


class AnswerBody(Record):
    """The content of a rank's answer.

    ``rows`` are a screen's lines, or what else a rank tells, each with its kind. ``frames`` is a stack, outermost
    first. ``digest`` is that of a value's whole content without memory addresses, empty if the whole content was not
    read. With ``at_least`` the rank has been at the place of ``frames`` for longer
    than the answer's age. ``threads`` are all threads, if they were asked for. ``frame`` is where an expression or a
    command was run; None if it was not run. ``found`` says why a guard answers in the rank's place: it is stuck or
    suspended.
    """

    text: FreeText
    rows: Rows = ()
    digest: FreeText = ""
    frames: Stack = ()
    at_least: bool = False
    threads: ThreadStacks = ()
    frame: Place | None = None
    found: Finding | None = None


def body_of(body: AnswerBody) -> msgspec.Raw:
    """Return a body as it is in a message."""
    return msgspec.Raw(encode_record(body).encode())


entered: list[type["Message"]] = []
"""Every class of message, in the order of their declaration."""


class MessageType(RecordType):
    """The class of message classes: it enters each in the list of all; its name is the message's type on the wire."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        sender: Sender | tuple[Sender, ...] = (),
        **options: Any,
    ) -> "MessageType":
        """Make one class."""
        made: Any = super().__new__(mcs, name, bases, namespace, tag_field="type", tag=name.lower(), **options)
        if sender:
            made.sender = frozenset(sender if isinstance(sender, tuple) else (sender,))
            entered.append(made)
        return typing.cast(MessageType, made)


class Message(Record, metaclass=MessageType):
    """A control message; ``sender`` holds the roles that may send it, which the class statement names."""

    sender: ClassVar[frozenset[Sender]]

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, sender: Sender | tuple[Sender, ...], **options: Any) -> None: ...


class Asked(Message, sender=()):
    """What a question asks of each rank, on its way to the broker and to the rank.

    ``text`` is the expression or command. ``inquiry`` is what an ``inspect`` looks at, the size of a ``screen``, the
    breakpoints to set and to clear, the command of an ``exec``, the child process of a ``native``, how long a
    ``sample`` lasts, or, in an ``eval``, the parts that are asked for of the value that was the last answer: no
    expression is evaluated then. With ``live`` running ranks are asked, too. With ``withdrawn`` an earlier
    ``interrupt`` is given up. With ``threads`` the answer to
    ``where`` has the stacks of all Python threads. ``frame`` is the frame to evaluate or run
    in, or to open the debugger at: a function's name, or a number as Python indexes a list of the frames, outermost
    first; empty for the usual frame. ``look`` is how much a ``where`` asks for beyond the stack. ``asked`` is how many
    ranks have the same question and can answer it, over all its pages; 0 is unknown. A rank gives up after ``seconds``.
    """

    request: Integer
    action: Action
    seconds: Real = 10.0
    text: FreeText = ""
    live: bool = False
    inquiry: AnyInquiry | None = None
    withdrawn: bool = False
    threads: bool = False
    frame: FrameName = ""
    look: Look = Look.STACK
    asked: Count = 0
