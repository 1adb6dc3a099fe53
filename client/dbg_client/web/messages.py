"""JSON messages between a page and its server on two kinds of WebSocket, identified by their ``type``.

``/live`` carries the ranks and answers, one socket for a page. ``/terminal`` is one seat at one rank; its binary frames
carry the bytes of the terminal in both directions. A rank is identified by its ``key``. A page draws what it receives
and computes nothing. Text of ranks is sent unchanged, so a page must show it as text, never as HTML.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from dbg_wire.errors import PeerError
from dbg_wire.limits import KIB, MAX_COLUMNS, MAX_ROWS, MAX_TEXT
from dbg_wire.records.record import Record, refusal

MAX_FRAME = 256 * KIB
"""Maximum size of one frame from a page, in bytes; a large paste is sent in several frames."""

MAX_RANKS = 100_000
"""Maximum ranks in one question of a page."""

BEAT_SECONDS = 5.0
"""Idle time before the server sends a beat, in seconds; a page that receives nothing for three beats reconnects."""

_KEY = Annotated[str, msgspec.Meta(max_length=1000)]
_TEXT = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Said(Record, tag_field="type", tag=str.lower):
    """Base of all messages; the type on the wire is the class name in lower case, as in ``endofinput``."""


# ------------------------------------------------------------------------------------------------ /live, to the page


class Axis(Record):
    """An axis of the mesh, such as ``tp``, and its size."""

    name: str
    size: int


class Hello(_Said):
    """The first message of each connection; ``now`` is the server's wall clock, which ``since`` and ``at`` use.

    ``target`` is the target of the command, empty for all ranks. ``nobody`` is the text for an empty list of ranks.
    ``drive`` means that the page may change ranks; otherwise ``why_not`` gives the reason and the remedy.
    """

    target: str
    nobody: str
    drive: bool
    why_not: str
    release: str
    now: float


class Job(_Said):
    """The mesh axes and one line per run about missing ranks, sent whenever either changes.

    ``axes`` are outermost first, and empty if no rank reports any.
    """

    axes: tuple[Axis, ...]
    missing: tuple[str, ...]


class Ranks(_Said):
    """Some rows, sent after ``hello``; after the message with ``last`` only ``change`` messages follow.

    A row has a rank's names and numbers, and ``coordinates``, an object with an index for each axis. Its texts are
    ``state`` (``crashed`` for a stop after an exception), ``place``, ``detail``, and ``who``, the users at the rank.
    """

    rows: tuple[msgspec.Raw, ...]
    last: bool


class Change(_Said):
    """Rows changed since the last message, one for each changed rank. ``gone`` has the keys of removed rows."""

    rows: tuple[msgspec.Raw, ...]
    gone: tuple[str, ...] = ()


class Link(_Said):
    """State of the server's connection to the broker; while it is down, ``reason`` says why, and the server retries."""

    up: bool
    reason: str


class Group(Record):
    """Ranks with the same answer; ``id`` is a target such as ``@2``, and ``keys`` are the keys of its ranks."""

    id: str
    kind: str
    ranks: str
    text: str
    keys: tuple[str, ...]


class Branch(Record):
    """One line of a stack tree, ``depth`` levels deep; ``groups`` are the ids of the groups at or below it."""

    depth: int
    count: int
    text: str
    groups: tuple[str, ...]
    is_odd: bool


class Answer(_Said):
    """The answer to the ``ask`` with this id.

    ``summary`` has the number of answers. ``tree`` has the stacks, ``verdicts`` are the verdicts of ``why --json``, and
    ``text`` is the terminal's text for answers without groups, tree or verdicts. ``whom`` is the target that the line
    or its verb names. ``whom`` is empty if the page has chosen the ranks by ``keys``, or if all ranks are asked
    without a target in the line. ``curve`` is a chart of gradient norms: for each step the smallest, median and
    largest value of the ranks. ``wrong`` is the step of the first wrong number, or 0.
    """

    id: int
    at: float
    whom: str
    summary: str = ""
    groups: tuple[Group, ...] = ()
    tree: tuple[Branch, ...] = ()
    verdicts: tuple[msgspec.Raw, ...] = ()
    text: str = ""
    curve: tuple[tuple[int, float, float, float], ...] = ()
    wrong: int = 0


class Progress(_Said):
    """Progress of an open answer, once a second: ``12 of 16 answered, waiting for 3 (2 s)``."""

    id: int
    text: str


class Failed(_Said):
    """The request with this id gets no answer, or no more of its answer; ``sentence`` is the reason."""

    id: int
    sentence: str


class Confirm(_Said):
    """Request for the user's consent: to agree, send the same ``ask`` with this question as ``yes``."""

    id: int
    question: str


class Verdict(_Said):
    """Latest ``verdicts`` of ``why --json`` on a job with waiting ranks; empty once the ranks continue.

    Verdicts are sent when a page opens, when no rank has moved for a minute, then every 20 seconds, and whenever a page
    asks ``why``. ``missing`` are the keys of ranks that have not reached a collective.
    """

    job: str
    verdicts: tuple[msgspec.Raw, ...] = ()
    missing: tuple[str, ...] = ()


class Found(_Said):
    """Ranks in a set, as the answer to the ``find`` with this id. If the text is not a set, ``failed`` answers it."""

    id: int
    keys: tuple[str, ...]


class Beat(_Said):
    """Sign of life of the server after BEAT_SECONDS without another message, on both kinds of socket."""


ToPage = Hello | Beat | Job | Ranks | Change | Link | Answer | Progress | Failed | Confirm | Verdict | Found

# ---------------------------------------------------------------------------------------------- /live, from the page


class Ask(_Said):
    """Ask ranks by a line as typed after ``Ctrl-] :``, such as ``eval 0-7 loss``, ``where`` or ``command n``.

    A line without a verb is an expression; short forms of verbs such as ``w`` are not recognized, because they may be
    variables of the program. The page chooses ``id``, larger than all earlier ids. The ranks are those named in the
    line; else ``keys``; else ``ranks``, a target such as ``0-7`` or ``@2``; else the verb's usual ranks. To agree to a
    ``confirm``, the page sends the ``ask`` again with the question of the ``confirm`` in ``yes``. ``shown`` is the id
    of the answer on the screen, whose groups the line can name, such as ``@2``. ``job``, if given, is the job of ranks
    that the line names without a job.
    """

    id: _NUMBER
    line: _TEXT
    keys: Annotated[tuple[_KEY, ...], msgspec.Meta(max_length=MAX_RANKS)] = ()
    ranks: _TEXT = ""
    yes: _TEXT = ""
    shown: _NUMBER | None = None
    job: _TEXT = ""


class Withdraw(_Said):
    """Cancel an ``ask``; ``failed`` follows."""

    id: _NUMBER


class Find(_Said):
    """Ask for the ranks in a set, such as ``0-7``, ``gpu013:*``, ``stopped`` or a group of the answer ``shown``."""

    id: _NUMBER
    text: _TEXT
    shown: _NUMBER | None = None


FromPage = Ask | Withdraw | Find

# ------------------------------------------------------------------------------------------- /terminal, to the page

# Binary frames are bytes for the terminal emulator on both kinds of socket; they contain only drawing sequences.


class State(_Said):
    """State of this seat, sent whenever it changes.

    ``kind`` is ``screen`` if the debugger reads bytes (PuDB), ``lines`` if it reads replies to prompts (pdb), empty if
    no debugger is open. ``state`` is the rank's state, ``place`` its file and line. ``driving`` means that this page
    has the keyboard, ``comes`` that it has requested the keyboard; ``driver`` is the user who has the keyboard.
    ``link`` is empty while broker and rank are connected; otherwise it names the one that is missing. ``notice`` is a
    sentence to show for a while. ``size`` is the size of the debugger's screen in rows and columns, set by the driver's
    terminal.
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
    """Reset and clear the terminal; ``text`` is shown instead of a debugger."""

    text: str


class Bell(_Said):
    """The page's input had no effect; the next ``state`` message says why."""


class Note(_Said):
    """A notice within a line debugger's output, not written by the rank."""

    text: str


class Prompt(_Said):
    """A line debugger's prompt: ``number`` is for the reply, ``text`` precedes the line.

    ``state`` is ``command``, ``more`` (a block continues), ``commands`` (for a breakpoint), ``input`` (of the program)
    or ``confirm``. ``number`` is -1 if no prompt is open. ``held`` is the number of lines queued for the next prompt.
    """

    number: int = -1
    text: str = ""
    state: str = ""
    held: int = 0


class Ended(_Said):
    """The socket closes, because the seat has ended with the rank's stop or exit, or could not be opened."""

    sentence: str


ToTerminal = Beat | State | Clear | Bell | Note | Prompt | Ended

# ----------------------------------------------------------------------------------------- /terminal, from the page


class Size(_Said):
    """The page's terminal has been resized."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]
    columns: Annotated[int, msgspec.Meta(ge=1, le=MAX_COLUMNS)]


class Take(_Said):
    """Take the keyboard from its current holder."""


class Release(_Said):
    """Release the keyboard, and keep watching."""


class Reply(_Said):
    """A line for the prompt with this number, or for the next prompt if the prompt with this number is not open."""

    prompt: Annotated[int, msgspec.Meta(ge=-1, le=2**53)]
    text: _TEXT


class EndOfInput(_Said):
    """Ctrl-D on an empty line."""


class Stop(_Said):
    """Ctrl-C: interrupt the running command or the rank; drops queued lines."""


FromTerminal = Size | Take | Release | Reply | EndOfInput | Stop


_encoder = msgspec.json.Encoder()


def encode(item: ToPage | ToTerminal) -> str:
    """Return the text of a message."""
    return _encoder.encode(item).decode()


LIVE: msgspec.json.Decoder[FromPage] = msgspec.json.Decoder(FromPage)
TERMINAL: msgspec.json.Decoder[FromTerminal] = msgspec.json.Decoder(FromTerminal)
"""Decoders of a page's messages on ``/live`` and on ``/terminal``."""

_Item = TypeVar("_Item")


def read(decoder: msgspec.json.Decoder[_Item], text: str) -> _Item:
    """Decode a page's message. Raises PeerError, which names the error."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise PeerError(f"a page's text{refusal(error)}") from None
