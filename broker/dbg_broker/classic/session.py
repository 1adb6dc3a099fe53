"""A stock PuDB, ``pudb.remote.set_trace(reverse=True)``, presented as an agent. Pure.

Its inputs are bytes of the program's socket and messages of the broker. Its outputs are messages of an agent and bytes
for the socket. Time is an argument.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from dbg_command.sequences import TextFilter
from dbg_wire import limits
from dbg_wire.codec import Input, Output
from dbg_wire.errors import printable
from dbg_wire.messages import (
    GUARD_ACTIONS,
    Action,
    Applied,
    Ask,
    Discarded,
    Interrupt,
    Kind,
    Message,
    Notice,
    Probe,
    ProbeReply,
    RankReport,
    Register,
    Repaint,
    Report,
    SessionInfo,
    StopInfo,
    Viewers,
    answer_to,
)
from dbg_wire.records.ranks import PUDB, Place, RankIdentity, RankProcess, RankState
from dbg_wire.records.record import clamp

JOB = "classic"
"""The job of stock sessions; a stock session doesn't know its own."""

STOP, SESSION = 0, 1
"""The id of every stop, and the id of a connection's only session. All stops have the same id, because a new stop looks
like the end of a step."""

QUIET_SECONDS = 0.5
"""Time without the debugger's screen until a program is reported as running, in seconds; most steps end sooner."""

REACTION_SECONDS = 3.0
"""Time within which PuDB must draw something after the first keys, in seconds; on a busy host it needs one second."""

PAGE_SECONDS = 0.1
"""Minimum interval between two pages, in seconds, because a program may print at each step. A page is printed text that
terminals show in place of the debugger's screen while the program runs."""

MAX_KEPT = 768 * limits.KIB
"""Maximum number of stored bytes of a screen, some 200 redraws; more would not fit into the queue of a terminal."""

MAX_SETUP = 4 * limits.KIB
"""Maximum number of bytes that PuDB sends before its first drawing, to set up the terminal. These bytes are kept even
if a stored screen becomes too long and loses its older drawings."""

MAX_PRINTED = 64 * limits.KIB
"""Maximum number of stored characters of the program's printed text: several pages."""

MAX_PAGE_LINES = 200
"""Maximum number of printed lines that a terminal gets while the program runs: twice the height of a large window."""

MAX_SHOWN = 120
"""Maximum length of the last printed line in the status line, in characters."""

MAX_HELD = 64
"""Maximum length of an incomplete escape sequence, in characters; the sequences that matter have about a dozen."""

NO_REACTION = (
    "this PuDB has not reacted to any key so far: stock pudb.remote accepts none on Python 3.12 and newer with "
    "urwid 4.1.0 and newer; install 'urwid<4.1' for the program, or use install(classic=True) there"
)

NO_PROCESS = RankProcess(pid=0, script="", directory="", release="0", python="0")
NOWHERE = Place(file="", line=0, function="")
"""Values for the process and the place of a session: a stock debugger reports neither."""

_ANSWERS = {
    Action.CONTINUE: "a stock PuDB resumes only when somebody types c; attach and type it",
    Action.SCREEN: "a stock PuDB's screen exists only in terminals; attach to see it",
    Action.KILL: "a stock session doesn't report its process; attach and type q to end it",
    Action.INSPECT: "a stock debugger has no `inspect`",
    Action.BREAKPOINTS: "a stock debugger has no `breakpoints`",
    **dict.fromkeys(GUARD_ACTIONS, "a stock debugger has no agent that could do that"),
}

_SWITCH = re.compile(rb"\x1b\[\?(?:47|1047|1049)([hl])")
_BEGUN_SWITCH = re.compile(rb"\x1b(?:\[(?:\?(?:4|47|1|10|104|1047|1049)?)?)?\Z")

_MOVE = re.compile(
    r"\x1b\[([0-9]*)(?:;([0-9]*))?H|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|([\x00-\x1f]+)|([^\x00-\x1f]+)"
)
_BEGUN_MOVE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)?\Z")

_HOME = b"\x1b[H"
"""Start of each drawing of PuDB."""

_SCREEN = b"\x18\x1b[0m\x0f\x1b[r\x1b[?7l\x1b[2J\x1b[H"
"""Escape sequences that make a terminal cut off rows that are too long, instead of wrapping them into the next row."""

_PAGE = b"\x18\x1b[0m\x0f\x1b[r\x1b[?7h\x1b[2J\x1b[H\x1b[?25h"

_CTRL_L = b"\x0c"


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes to write to the program's socket."""

    data: bytes


SessionOutput = Message | Output | Write


class Splitter:
    """Parser that splits the stream at each switch of screens, even if a read ends within a switch."""

    def __init__(self) -> None:
        self._rest = b""
        self._drawing = False

    def feed(self, data: bytes) -> Iterator[tuple[bool, bytes, bool]]:
        """Yield for each piece whether it is for the debugger's screen, its bytes, and whether it switches screens."""
        data = self._rest + data
        begun = _BEGUN_SWITCH.search(data)
        data, self._rest = (data[: begun.start()], data[begun.start() :]) if begun else (data, b"")
        position = 0
        for switch in _SWITCH.finditer(data):
            if position < switch.start():
                yield self._drawing, data[position : switch.start()], False
            position = switch.end()
            self._drawing = switch[1] == b"h"
            yield self._drawing, switch[0], True
        if position < len(data):
            yield self._drawing, data[position:], False


class Extent:
    """Minimum size of a debugger's screen, determined from its drawing."""

    def __init__(self) -> None:
        self.rows = self.columns = self._row = self._column = 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        """Process drawn bytes."""
        text = self._rest + self._decoder.decode(data)
        begun = _BEGUN_MOVE.search(text)
        end = begun.start() if begun and len(text) - begun.start() <= MAX_HELD else len(text)
        text, self._rest = text[:end], text[end:]
        for token in _MOVE.finditer(text):
            if token[4]:
                self._column += len(token[4]) if token[4].isascii() else sum(map(_width, token[4]))
                self.rows = max(self.rows, min(self._row + 1, 9999))
                self.columns = max(self.columns, min(self._column, 9999))
            elif token[3]:
                self._control(token[3])
            elif token[0].endswith("H"):
                self._row, self._column = _number(token[1]) - 1, _number(token[2]) - 1

    def _control(self, controls: str) -> None:
        for control in controls:
            if control == "\r":
                self._column = 0
            elif control == "\n":
                self._row += 1
            elif control == "\b":
                self._column = max(0, self._column - 1)


def _number(text: str | None) -> int:
    return max(1, int(text[:5])) if text else 1


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


class StockSession:
    """Session that stores PuDB's drawing since its screen started, and the last text that the program printed.

    ``due`` is the time of the next call of :meth:`tick`, or None. ``is_proven`` is True once a debugger has shown its
    screen.
    """

    def __init__(self, now: float) -> None:
        self.due: float | None = None
        self.is_proven = False
        self._since, self._running = now, False
        self._viewers = self._generation = self._received = self._sent = 0
        self._splitter, self._extent = Splitter(), Extent()
        self._drawing = False
        self._kept, self._setup, self._is_cut = bytearray(), 0, False
        self._text, self._printed = TextFilter(colors=False), ""
        self._has_printed = self._page_is_open = False
        self._page_at = now - PAGE_SECONDS
        self._has_reacted = self._awaits_reaction = False

    def registration(self, key: str, host: str, number: int, now: float) -> Register:
        """Return the first message of an agent, with empty values for everything that a session does not know."""
        return clamp(
            Register,
            minor=0,
            identity=clamp(RankIdentity, key=key, job=JOB, run="0", host=host, rank=number),
            placement=None,
            child=None,
            process=NO_PROCESS,
            ancestors=(),
            kernel="",
            report=self.report(now),
        )

    def report(self, now: float) -> RankReport:
        """Return the state of the session."""
        age = now - self._since
        return clamp(
            RankReport,
            state=RankState.RUNNING if self._running else RankState.STOPPED,
            stop=clamp(StopInfo, number=STOP, reason="breakpoint", where=NOWHERE, age=age, thread=""),
            session=clamp(
                SessionInfo, number=SESSION, engine=PUDB, rows=self._extent.rows, columns=self._extent.columns
            ),
            stepping=self._running,
            generation=self._generation,
            applied=self._received,
        )

    # ------------------------------------------------------------------------------------------------ from the program

    def received(self, data: bytes, now: float) -> list[SessionOutput]:
        """Process PuDB's drawing and the program's printed text."""
        size = self._extent.rows, self._extent.columns
        outputs: list[SessionOutput] = []
        if self._awaits_reaction:
            self._awaits_reaction, self._has_reacted, self.due = False, True, None
        for is_drawn, piece, is_switch in self._splitter.feed(data):
            if is_switch:
                outputs += self._enter(piece, now) if is_drawn else self._leave(now)
            elif is_drawn:
                outputs += self._draw(piece)
            else:
                outputs += self._print(self._text.feed(piece), now)
        if (self._extent.rows, self._extent.columns) != size and self.is_proven:
            outputs.append(Report(report=self.report(now)))
        return outputs

    def tick(self, now: float) -> list[SessionOutput]:
        """Do the work that depends on time."""
        if self.due is None or now < self.due:
            return []
        self.due = None
        if self._awaits_reaction:
            self._awaits_reaction = False
            return [Notice(text=NO_REACTION)]
        shown = [] if self._page_is_open else self._open_page(now)
        return [*self._set_running(True, now), *shown]

    def _enter(self, switch: bytes, now: float) -> list[SessionOutput]:
        self.is_proven = self._drawing = True
        self.due = None
        self._kept, self._setup, self._is_cut = bytearray(switch), 0, False
        printed = self._last_printed() if self._has_printed and self._viewers else []
        self._has_printed = False
        return [*self._set_running(False, now), *self._show(_SCREEN + switch), *printed]

    def _leave(self, now: float) -> list[SessionOutput]:
        self._drawing = self._page_is_open = False
        self.due = now + QUIET_SECONDS
        return []

    def _draw(self, data: bytes) -> list[SessionOutput]:
        self._extent.feed(data)
        self._kept += data
        if not self._setup and (found := self._kept.find(_HOME, 0, MAX_SETUP)) >= 0:
            self._setup = found
        if len(self._kept) > MAX_KEPT:
            # The older half is removed, up to the start of a drawing.
            self._is_cut = True
            half = len(self._kept) - MAX_KEPT // 2
            drawing = self._kept.find(_HOME, half)
            del self._kept[self._setup : drawing if drawing >= 0 else half]
        return self._show(data)

    def _print(self, text: str, now: float) -> list[SessionOutput]:
        if not text:
            return []
        self._has_printed = True
        self._printed = (self._printed + text)[-MAX_PRINTED:]
        if self._page_is_open:
            return self._show(_lines(text))
        # A page has up to MAX_PAGE_LINES lines. In the PAGE_SECONDS after it was opened, the next page is opened only
        # if the program continues to run (`tick`).
        return self._open_page(now) if now - self._page_at >= PAGE_SECONDS else []

    def _open_page(self, now: float) -> list[SessionOutput]:
        """Show the printed text in place of the debugger's screen."""
        self._page_is_open, self._page_at = True, now
        return self._show(self._page()) if self._viewers else []

    def _page(self) -> bytes:
        return _PAGE + _lines("".join(self._printed.splitlines(keepends=True)[-MAX_PAGE_LINES:]))

    def _last_printed(self) -> list[SessionOutput]:
        last = self._printed.rstrip().rpartition("\n")[2]
        return [Notice(text=f"the program printed: {printable(last, MAX_SHOWN)}")] if last and self._drawing else []

    def _set_running(self, running: bool, now: float) -> list[SessionOutput]:
        if self._running == running:
            return []
        self._running, self._since = running, now
        return [Report(report=self.report(now))]

    def _show(self, data: bytes) -> list[SessionOutput]:
        """Return the frames that show bytes to terminals; without a terminal the bytes are only counted."""
        frames: list[SessionOutput] = []
        for start in range(0, len(data), limits.MAX_DATA_BYTES):
            piece = data[start : start + limits.MAX_DATA_BYTES]
            if self._viewers:
                frames.append(Output(SESSION, self._sent, piece))
            self._sent += len(piece)
        return frames

    # ------------------------------------------------------------------------------------------------- from the broker

    def message(self, message: Message) -> list[SessionOutput]:
        """Handle a message of the broker to an agent."""
        if isinstance(message, Viewers):
            return self._on_viewers(message)
        if isinstance(message, Probe):
            return [ProbeReply(where=None)]
        if isinstance(message, Repaint):
            return self._repaint()
        if isinstance(message, Ask):
            text = _ANSWERS.get(message.action, "a stock session does not answer questions; attach to it")
            return [answer_to(message.request, Kind.ERROR, text)]
        if isinstance(message, Interrupt):
            return [Notice(text="a stock session can't be interrupted: it listens only while its debugger waits")]
        return []

    def keys(self, frame: Input, now: float) -> list[SessionOutput]:
        """Handle keys of the driver: they are written once, or reported as discarded."""
        end = frame.offset + len(frame.data)
        if frame.generation != self._generation:
            reason, count = "the keyboard was taken", len(frame.data)
            return [clamp(Discarded, generation=frame.generation, offset=end, count=count, reason=reason)]
        fresh = frame.data[max(0, self._received - frame.offset) :]
        if not fresh:
            return []
        self._received = end
        reason = ""
        if (frame.stop, frame.session) != (STOP, SESSION):
            reason = "it was typed for another session"
        elif self._running:
            # The keys would wait in the socket, and act on a stop that the user had not seen when typing them.
            reason = "the program runs, and stock PuDB accepts keys only while it is stopped"
        if reason:
            count = len(fresh)
            return [clamp(Discarded, generation=self._generation, offset=end, count=count, reason=reason)]
        if self._drawing and not self._has_reacted and not self._awaits_reaction:
            self._awaits_reaction, self.due = True, now + REACTION_SECONDS
        return [Write(fresh), clamp(Applied, generation=self._generation, offset=end)]

    def _on_viewers(self, viewers_message: Viewers) -> list[SessionOutput]:
        if viewers_message.generation != self._generation:
            self._generation, self._received = viewers_message.generation, 0
        more = viewers_message.viewers > self._viewers
        self._viewers = viewers_message.viewers
        return self._last_printed() if more else []

    def _repaint(self) -> list[SessionOutput]:
        if not self._drawing:
            return self._show(self._page())
        outputs = self._show(_SCREEN + bytes(self._kept))
        if self._is_cut:
            outputs += [Notice(text="the screen may be incomplete until the next step"), Write(_CTRL_L)]
        return outputs


def _lines(text: str) -> bytes:
    """Return text for a raw terminal, where a line feed does not return to the first column."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-8", "replace")
