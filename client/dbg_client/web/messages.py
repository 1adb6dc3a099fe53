"""What a page and its server say to each other over two kinds of WebSocket: JSON texts, told apart by their ``type``.

``/live`` has the ranks and answers, one socket for a page. ``/terminal`` is one seat at one rank, with
the bytes of its terminal as binary frames both ways. A rank is known by its ``key``. A page draws what it gets, and
works nothing out. All text of ranks is as they have sent it: a page shows it as text and never as HTML.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from dbg_wire.errors import PeerError
from dbg_wire.limits import KIB, MAX_COLUMNS, MAX_ROWS, MAX_TEXT
from dbg_wire.records.record import Record, refusal

MAX_FRAME = 256 * KIB
"""Bytes of one frame from a page; a paste is sent in several."""

MAX_RANKS = 100_000
"""Ranks that a page asks at once."""

BEAT_SECONDS = 5.0
"""Seconds without another message before a beat: a page that hears nothing for three of them dials anew."""

_KEY = Annotated[str, msgspec.Meta(max_length=1000)]
_TEXT = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Said(Record, tag_field="type", tag=str.lower):
    """What is said by one side; its type is the class's name in small letters, as in ``endofinput``."""


# ------------------------------------------------------------------------------------------------ /live, to the page


class Axis(Record):
    """An axis of the mesh, such as ``tp``, and how many places it has."""

    name: str
    size: int


class Hello(_Said):
    """The first text of each connection. ``now`` is the server's wall clock, by which ``since`` and ``at`` are read.

    ``target`` are the ranks that the command was given, empty for all; ``nobody`` is shown while there is no rank.
    ``drive`` says whether the page may change anything; if not, ``why_not`` says what to do about it.
    """

    target: str
    nobody: str
    drive: bool
    why_not: str
    release: str
    now: float


class Job(_Said):
    """The ``axes`` of the mesh and a line for each run of which ranks never came, whenever either has changed.

    Axes have the outermost first; there are none if no rank tells.
    """

    axes: tuple[Axis, ...]
    missing: tuple[str, ...]


class Ranks(_Said):
    """A page of rows, behind ``hello``; ``last`` says that no more follows, but for ``change``.

    A row has the names and numbers of a rank and its ``coordinates`` as an object of axes; as texts its ``state``, in
    which a stop after an exception is ``crashed``, and its ``place``, ``who`` is there, and ``detail``.
    """

    rows: tuple[msgspec.Raw, ...]
    last: bool


class Change(_Said):
    """What has changed since the text before: several changes of a rank are one row, the last. ``gone`` are keys."""

    rows: tuple[msgspec.Raw, ...]
    gone: tuple[str, ...] = ()


class Link(_Said):
    """Whether the server has its connection to the broker; while it has not, ``reason`` says why, and it redials."""

    up: bool
    reason: str


class Group(Record):
    """Ranks that answered the same; ``id`` is a target such as ``@2``. ``keys`` are those of its ranks."""

    id: str
    kind: str
    ranks: str
    text: str
    keys: tuple[str, ...]


class Branch(Record):
    """One line of a tree of stacks, ``depth`` levels deep; ``groups`` are the ids of those at or below it."""

    depth: int
    count: int
    text: str
    groups: tuple[str, ...]
    is_odd: bool


class Answer(_Said):
    """The answer to ``ask`` with this id.

    ``summary`` says how many answered. ``tree`` has the stacks, ``verdicts`` are those of ``why --json``, and ``text``
    is what a terminal shows where there are no groups, tree or verdicts. ``whom`` is the target that the line or its
    verb means, empty for the page's own keys, and for all.
    """

    id: int
    at: float
    whom: str
    summary: str = ""
    groups: tuple[Group, ...] = ()
    tree: tuple[Branch, ...] = ()
    verdicts: tuple[msgspec.Raw, ...] = ()
    text: str = ""


class Progress(_Said):
    """What an answer still waits for, once a second: ``12 of 16 answered, waiting for 3 (2 s)``."""

    id: int
    text: str


class Failed(_Said):
    """Nothing (more) comes for this id, and why, in one sentence."""

    id: int
    sentence: str


class Confirm(_Said):
    """The user has to agree first: send the same ``ask`` with the question as ``yes``, or nothing."""

    id: int
    question: str


class Verdict(_Said):
    """The last ``verdicts`` of ``why --json`` on a job in which ranks wait; none once they go on again.

    They come when a page opens, when no rank has moved for a minute, every 20 seconds from then on, and whenever a page
    asks ``why``. ``missing`` are the keys of ranks that have not come to a collective.
    """

    job: str
    verdicts: tuple[msgspec.Raw, ...] = ()
    missing: tuple[str, ...] = ()


class Found(_Said):
    """The ranks that a set names: the answer to ``find`` with this id; ``failed`` where it is no set."""

    id: int
    keys: tuple[str, ...]


class Beat(_Said):
    """Nothing but that the server is there, after BEAT_SECONDS without another message, in both kinds of session."""


ToPage = Hello | Beat | Job | Ranks | Change | Link | Answer | Progress | Failed | Confirm | Verdict | Found

# ---------------------------------------------------------------------------------------------- /live, from the page


class Ask(_Said):
    """Ask ranks by a line as it is typed behind ``Ctrl-] :``; ``eval 0-7 loss``, ``where``, ``command n``,
    ``interrupt``. A line that begins with no verb is an expression: short forms of verbs are names of programs, too.

    ``id`` is the page's, and larger than those before. The line is about the ranks that it names itself, else about
    ``keys``, else about ``ranks``, which is a target such as ``0-7`` or ``@2``, else about those that the verb usually
    means. ``yes`` is the question of a ``confirm`` to which the user agrees. ``shown`` is the id of the answer on the
    screen, whose groups have names such as ``@2``. Ranks that the line names without a job are those of ``job``, if
    that is given.
    """

    id: _NUMBER
    line: _TEXT
    keys: Annotated[tuple[_KEY, ...], msgspec.Meta(max_length=MAX_RANKS)] = ()
    ranks: _TEXT = ""
    yes: _TEXT = ""
    shown: _NUMBER | None = None
    job: _TEXT = ""


class Withdraw(_Said):
    """Give up an ``ask``; ``failed`` follows."""

    id: _NUMBER


class Find(_Said):
    """Ask which ranks a set names, such as ``0-7``, ``gpu013:*``, ``stopped`` or a group of the answer ``shown``."""

    id: _NUMBER
    text: _TEXT
    shown: _NUMBER | None = None


FromPage = Ask | Withdraw | Find

# ------------------------------------------------------------------------------------------- /terminal, to the page

# Binary frames are bytes for the terminal emulator, in both kinds of session; only what draws is in them.


class State(_Said):
    """What holds at this seat, whenever that changes.

    ``kind`` is ``screen`` where keys are bytes (PuDB), ``lines`` where they answer prompts (pdb), empty while no
    debugger is open. ``state`` is the rank's, ``place`` its file and line. ``driving`` says whether this page has the
    keyboard, ``comes`` that it has been asked for, ``driver`` who has it. ``link`` is empty while all is connected,
    else it says what is missing: the broker or the rank. ``notice`` is a sentence to be shown for a while. ``size`` are
    the rows and columns of the debugger's screen, which are those of who drives.
    """

    kind: str
    engine: str
    state: str
    place: str
    driving: bool
    comes: bool
    driver: str
    watchers: int
    link: str
    notice: str
    size: tuple[int, int]


class Clear(_Said):
    """Bring the terminal to its first state and clear it; ``text`` stands there instead of a debugger."""

    text: str


class Bell(_Said):
    """Something that was typed had no effect; the next ``state`` says why."""


class Note(_Said):
    """A sentence among a line debugger's output, which is not the rank's."""

    text: str


class Prompt(_Said):
    """A line debugger asks: ``number`` is for the reply, ``text`` stands before the line.

    ``state`` is ``command``, ``more`` (a block goes on), ``commands`` (for a breakpoint), ``input`` (of the program) or
    ``confirm``. None waits if ``number`` is -1. ``held`` counts lines that wait for the next prompt.
    """

    number: int = -1
    text: str = ""
    state: str = ""
    held: int = 0


class Ended(_Said):
    """The seat is over, and the socket closes: the rank went on, has exited, or gave no seat."""

    sentence: str


ToTerminal = Beat | State | Clear | Bell | Note | Prompt | Ended

# ----------------------------------------------------------------------------------------- /terminal, from the page


class Size(_Said):
    """The page's terminal has another size."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]
    columns: Annotated[int, msgspec.Meta(ge=1, le=MAX_COLUMNS)]


class Take(_Said):
    """Take the keyboard from whoever has it."""


class Release(_Said):
    """Give the keyboard up and look on."""


class Reply(_Said):
    """A line for a prompt, or for the next one if that number is not open (any more)."""

    prompt: Annotated[int, msgspec.Meta(ge=-1, le=2**53)]
    text: _TEXT


class EndOfInput(_Said):
    """Ctrl-D on an empty line."""


class Stop(_Said):
    """Ctrl-C: interrupt what runs, or break into the rank; drops lines that wait."""


FromTerminal = Size | Take | Release | Reply | EndOfInput | Stop


_encoder = msgspec.json.Encoder()


def encode(item: ToPage | ToTerminal) -> str:
    """Return the text of a message."""
    return _encoder.encode(item).decode()


LIVE: msgspec.json.Decoder[FromPage] = msgspec.json.Decoder(FromPage)
TERMINAL: msgspec.json.Decoder[FromTerminal] = msgspec.json.Decoder(FromTerminal)
"""What a page says on ``/live`` and on ``/terminal``."""

_Item = TypeVar("_Item")


def read(decoder: msgspec.json.Decoder[_Item], text: str) -> _Item:
    """Return what a page says. Raises PeerError, which names what is wrong."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise PeerError(f"a page's text{refusal(error)}") from None
