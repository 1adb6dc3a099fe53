"""Parts of messages: enumerations, the rows of an answer, and the base class of all messages."""

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
    BreakpointChanges,
    BreakpointState,
    CommandEnd,
    CommandLine,
    ExceptionSeen,
    Inspection,
    ScreenSize,
    SourceText,
    Variable,
)
from dbg_wire.records.numbers import NumbersQuestion, NumbersState, WrongNumber
from dbg_wire.records.ranks import Place, Stack, ThreadStacks
from dbg_wire.records.record import Count, FrameName, FreeText, Integer, Items, Real, Record, RecordType, encode_record
from dbg_wire.records.samples import GroupArrivals, RankSample, SampledPlace, SampleQuestion


class Sender(str, enum.Enum):
    """Role of a peer."""

    AGENT = "agent"
    BROKER = "broker"
    CLIENT = "client"


class Mode(str, enum.Enum):
    """How a terminal attaches: as driver, as watcher, or as driver in place of the current one."""

    DRIVE = "drive"
    WATCH = "watch"
    TAKE = "take"


class Action(str, enum.Enum):
    """Action that a question requests from each rank."""

    CONTINUE = "continue"
    KILL = "kill"
    SCREEN = "screen"
    EVAL = "eval"
    """Evaluate an expression in the stopped thread; with ``live`` also in a running rank, which is interrupted."""
    COMMAND = "command"
    """Run a debugger command; the answer is its output, or the place where the rank stops next."""
    WHERE = "where"
    """Return the stack of the stopped thread, or of the main thread of a running rank."""
    INTERRUPT = "interrupt"
    """Break into a running rank."""
    RELEASE = "release"
    """Resume a held rank."""
    EXEC = "exec"
    """Run a command in a process next to the rank. The rank's guard performs this action and ``native``, so both also
    work while the rank hangs."""
    NATIVE = "native"
    """Return the stack with its native frames, from a profiler that reads the memory of the rank."""
    INSPECT = "inspect"
    """Inspect values of the stopped thread: an :class:`~dbg_wire.records.inspection.Inspection`."""
    BREAKPOINTS = "breakpoints"
    """Set and clear breakpoints, also in running ranks: a :class:`~dbg_wire.records.inspection.BreakpointChanges`."""
    SAMPLE = "sample"
    """Sample the rank for some seconds: a :class:`~dbg_wire.records.samples.SampleQuestion`."""
    NUMBERS = "numbers"
    """Watch the numbers of a training: a :class:`~dbg_wire.records.numbers.NumbersQuestion`."""


GUARD_ACTIONS = frozenset({Action.EXEC, Action.NATIVE})
"""Actions that a rank's guard performs."""


class DetailLevel(str, enum.Enum):
    """Detail level of a ``where``; each level includes the previous one."""

    STACK = "stack"
    """The stack of the rank."""
    COLLECTIVES = "collectives"
    """The rank's groups and its unfinished collectives."""
    EVIDENCE = "evidence"
    """The wait of each thread of the rank, and facts about the rank's process."""


class PromptState(str, enum.Enum):
    """Input that a line debugger waits for; the terminal edits and completes the line accordingly."""

    COMMAND = "command"
    """A command or a statement, at the debugger's own prompt."""
    MORE = "more"
    """The rest of an incomplete statement."""
    COMMANDS = "commands"
    """Commands for a breakpoint, until ``end``."""
    INTERACT = "interact"
    """A statement for the Python prompt that pdb's command ``interact`` opens."""
    INPUT = "input"
    """A line for the program's own ``input()`` or ``sys.stdin``, in code that a command runs."""
    CONFIRM = "confirm"
    """An answer to the debugger's question."""


class Kind(str, enum.Enum):
    """Kind of one rank's answer.

    For a rank that is not connected, the broker answers ``lost``. For a rank that did not answer in time, the terminal
    that asked shows ``silent``.
    """

    VALUE = "value"
    ERROR = "error"
    RUNNING = "running"
    SILENT = "silent"
    LOST = "lost"


class Finding(str, enum.Enum):
    """State of a rank that its guard reports."""

    STUCK = "stuck"
    """The interpreter has not run for some time: C code holds the GIL."""
    SUSPENDED = "suspended"
    """The process has not run for some time because a signal or a tracer stopped it."""
    FATAL = "fatal"
    """The process received a fatal signal. The signal ends the process unless the program handles it."""
    ENDED = "ended"
    """The process has ended, by a signal or without a goodbye."""
    CALLED = "called"
    """The rank is running and has asked its guard to connect, because a question is for the guard."""


class RefusalCode:
    """Codes of a Refusal."""

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
    | NumbersState
    | WrongNumber
)
"""A line of a screen, a piece of a command's output, or a record from a rank."""

Rows = Annotated[tuple[AnyRow, ...], Items]

AnyInquiry = Inspection | BreakpointChanges | CommandLine | ScreenSize | SampleQuestion | NumbersQuestion


class AnswerBody(Record):
    """Body of a rank's answer.

    ``rows`` are the lines of a screen, or records. ``frames`` is a stack, outermost first. ``digest`` is a digest of
    a value's whole content without memory addresses; it is empty if the content was not read completely. ``at_least``
    means that the rank may have been at the place of ``frames`` for longer than the answer's age. ``threads`` are all
    threads, if requested. ``frame`` is the place where an expression or command was run, or None if it was not run.
    ``found`` says why a guard answers in place of the rank: the rank is stuck or suspended.
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
    """Encode a body for a message."""
    return msgspec.Raw(encode_record(body).encode())


entered: list[type["Message"]] = []
"""All message classes, in the order of declaration."""


class MessageType(RecordType):
    """Metaclass of messages: adds each class to ``entered``. On the wire, the type is the class name in snake case."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        sender: Sender | tuple[Sender, ...] = (),
        **options: Any,
    ) -> "MessageType":
        """Create one message class."""
        tag = "".join(f"_{one}" if one.isupper() else one for one in name).lower()[1:]
        made: Any = super().__new__(mcs, name, bases, namespace, tag_field="type", tag=tag, **options)
        if sender:
            made.sender = frozenset(sender if isinstance(sender, tuple) else (sender,))
            entered.append(made)
        return typing.cast(MessageType, made)


class Message(Record, metaclass=MessageType):
    """Control message; ``sender`` contains the roles that may send it, given in the class statement."""

    sender: ClassVar[frozenset[Sender]]

    if TYPE_CHECKING:

        def __init_subclass__(cls, *, sender: Sender | tuple[Sender, ...], **options: Any) -> None: ...


class Asked(Message, sender=()):
    """Base of a question to ranks, from the terminal to the broker and from the broker to each rank.

    ``text`` is the expression or command. ``inquiry`` has the parameters of the action, such as the size of a
    ``screen`` or the command of an ``exec``. With ``live`` running ranks answer as well. ``withdrawn`` cancels an
    earlier ``interrupt``, or the command that a guard runs for the same question. With ``threads`` the answer to
    ``where`` has the stacks of all Python threads. ``frame`` is the frame to evaluate or run in, or to open the
    debugger at. It is the name of a function, or an index into the frames, outermost first, as in Python; empty for the
    default frame. ``look`` is the detail level of a ``where``. ``asked`` is the number of ranks that get the same
    question and can answer it; 0 if unknown. A question to many ranks is sent in several messages, and ``asked`` counts
    the ranks of all these messages. A rank cancels the work after ``seconds``.
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
    look: DetailLevel = DetailLevel.STACK
    asked: Count = 0
