"""The asciicast of one stop: from what a rank shows and its driver types to lines of a file. Pure.

The event loop tells the writing thread what happens as values, whose ``at`` is in monotonic seconds. The lines are
those of asciicast version 2, which all players know: https://docs.asciinema.org/manual/asciicast/v2/
"""

from __future__ import annotations

import codecs
import json
import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dbg_wire.codec import Output, decode_data
from dbg_wire.errors import printable
from dbg_wire.messages import PromptInfo, Sender
from dbg_wire.sequences import QueryFilter, TextFilter
from dbg_wire.tables.engines import LINE_ENGINE

OUTPUT, INPUT, RESIZE, MARKER = "o", "i", "r", "m"
"""The codes of events."""

_HIDDEN = frozenset(map(chr, (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))))
"""Control characters above 32, and characters that end lines or turn the direction of text."""

_ANY_HIDDEN = re.compile(f"[{''.join(_HIDDEN)}]")

OUTPUT_HEADER = struct.Struct(">BIQ")

CLEARED = "\x0f\x1b(B\x1b[0m\x1b[2J\x1b[H\x1b[?25h"
"""An empty screen without colours, and a cursor."""

MAX_SESSIONS = 8
"""Sessions of a stop that are told apart; one begins whenever another debugger is opened."""


def encode_header(*, columns: int, rows: int, timestamp: float, title: str, about: Mapping[str, str]) -> bytes:
    """Return the first line; ``timestamp`` is in seconds since the epoch, ``about`` names what has no field."""
    document = {
        "version": 2,
        "width": columns,
        "height": rows,
        "timestamp": int(timestamp),
        "title": title,
        "env": {"TERM": "xterm-256color", **{name: text for name, text in about.items() if text}},
    }
    return _line(document)


def encode_event(seconds: float, code: str, data: str) -> bytes:
    """Return the line of an event so many seconds after the beginning."""
    return _line([round(seconds, 3), code, data])


def _line(document: object) -> bytes:
    text = json.dumps(document, ensure_ascii=False)
    if (not text.isascii() or "\x7f" in text) and _ANY_HIDDEN.search(text):
        # A recording may be looked at with `cat`: JSON escapes the control characters below 32, and this the others.
        # Each kind is replaced at once: a call for each of 65,536 characters would keep the event loop from running.
        for hidden in _HIDDEN.intersection(text):
            text = text.replace(hidden, f"\\u{ord(hidden):04x}")
    return text.encode("utf-8", "replace") + b"\n"


@dataclass(frozen=True, slots=True)
class ScreenInfo:
    """The debugger and its screen as the rank reports them now."""

    at: float
    session: int
    engine: str
    rows: int
    columns: int
    prompt: PromptInfo | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame of terminal bytes, as the rank has sent it."""

    at: float
    frame: bytes

    @property
    def size(self) -> int:
        """Return how many bytes of output it has."""
        return max(0, len(self.frame) - OUTPUT_HEADER.size)


def place_of(frame: bytes) -> tuple[int, int]:
    """Return the session's number of terminal bytes and their place in it, 0 for the beginning."""
    if len(frame) < OUTPUT_HEADER.size:
        return 0, 0
    _, session, offset = OUTPUT_HEADER.unpack_from(frame)
    return int(session), int(offset)


@dataclass(frozen=True, slots=True)
class Typed:
    """Keys of the driver."""

    at: float
    keys: bytes


@dataclass(frozen=True, slots=True)
class Marker:
    """A sentence about the stop, such as who types now."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """So many bytes of output could not be kept."""

    at: float
    count: int


Happening = ScreenInfo | Shown | Typed | Marker | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which stop it is, all in the rank's own words. ``began`` is in seconds since the epoch."""

    job: str
    address: str
    stop: int
    began: float
    reason: str = ""
    place: str = ""
    script: str = ""


@dataclass(slots=True)
class StopCast:
    """Turn what happens at a stop into lines; the first happening is a ScreenInfo, which the header needs.

    A line debugger's prompt is shown when it opens, and is left out of the log that repeats it. Its log is in order,
    without what a rank sends a second time for another terminal. Of the output only what draws is kept, as in a
    session: players hand every byte to the terminal.
    """

    about: About
    _began: float | None = field(init=False, default=None)
    """The monotonic second of the first happening, from which the file counts."""
    _seen: ScreenInfo | None = field(init=False, default=None)
    _expected: dict[int, int] = field(init=False, default_factory=dict)
    """For each session the offset after its last byte."""
    _prompt: PromptInfo | None = field(init=False, default=None)
    """The prompt that stands on the screen and is not answered."""
    _column: bool = field(init=False, default=False)
    """Whether the last line of a log has begun."""
    _filter: QueryFilter = field(init=False, default_factory=QueryFilter)
    _keys: codecs.IncrementalDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._keys = codecs.getincrementaldecoder("utf-8")("replace")

    def header(self) -> bytes:
        """Return the first line of the file."""
        about, seen = self.about, self._seen or _NO_SCREEN
        shown = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(about.began))
        return encode_header(
            columns=seen.columns,
            rows=seen.rows,
            timestamp=about.began,
            title=printable(f"{about.job}/{about.address}, stop {about.stop}, {shown} UTC", 300),
            about={
                "STOP_JOB": about.job,
                "STOP_ADDRESS": about.address,
                "STOP_REASON": about.reason,
                "STOP_PLACE": about.place,
                "STOP_SCRIPT": about.script,
                "STOP_DEBUGGER": seen.engine,
            },
        )

    def lines_of(self, happening: Happening) -> bytes:
        """Return the lines that say this, empty for none."""
        if self._began is None:
            self._began = happening.at
        return _ENCODERS[type(happening)](self, happening)

    def mark(self, at: float, text: str) -> bytes:
        """Return the line of a marker, which players show on their time line."""
        return self._line(at, MARKER, text)

    # ---------------------------------------------------------------------------------------------- one kind each

    def _see(self, seen: ScreenInfo) -> bytes:
        before, self._seen = self._seen, seen
        if before is None:
            return b""
        lines = b""
        if (seen.rows, seen.columns) != (before.rows, before.columns):
            lines += self._line(seen.at, RESIZE, f"{seen.columns}x{seen.rows}")
        if seen.engine != before.engine:
            lines += self.mark(seen.at, f"the debugger is {printable(seen.engine)} now")
            self._prompt = None
            self._filter = QueryFilter()
            # Lines would be written over the screen that the debugger before has drawn.
            lines += self._line(seen.at, OUTPUT, CLEARED) if seen.engine == LINE_ENGINE else b""
        return lines + self._show_prompt(seen.at)

    def _show(self, shown: Shown) -> bytes:
        frame = decode_data(shown.frame, Sender.AGENT)
        if not isinstance(frame, Output):
            return b""
        is_log = self._is_log
        data, missing = self._fresh(frame, is_log=is_log)
        if not data:
            return b""
        lines = self._gap(shown.at, missing if is_log else 0)
        if missing:
            self._filter = QueryFilter()
        if is_log:
            data = self._without_echo(frame, data)
        text = self._filter.feed(data).decode()
        if is_log and text:
            self._column = not text.endswith("\n")
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        lines += self._line(shown.at, OUTPUT, text) if text else b""
        return lines + self._show_prompt(shown.at)

    def _type(self, typed: Typed) -> bytes:
        text = self._keys.decode(typed.keys)
        return self._line(typed.at, INPUT, text) if text else b""

    def _say(self, said: Marker) -> bytes:
        return self.mark(said.at, printable(said.text, 300))

    def _miss(self, missing: Missing) -> bytes:
        self._filter = QueryFilter()
        self._expected.clear()
        return self._gap(missing.at, missing.count)

    # ------------------------------------------------------------------------------------------------------ inner

    def _line(self, at: float, code: str, data: str) -> bytes:
        return encode_event(at - (at if self._began is None else self._began), code, data)

    @property
    def _is_log(self) -> bool:
        return self._seen is not None and self._seen.engine == LINE_ENGINE

    def _gap(self, at: float, count: int) -> bytes:
        return self.mark(at, f"{count} bytes of output are missing here") if count else b""

    def _fresh(self, frame: Output, *, is_log: bool) -> tuple[bytes, int]:
        """Return what is new in a frame, and how many bytes before it are missing."""
        expected = self._expected.get(frame.session, frame.offset)
        known = max(0, expected - frame.offset) if is_log else 0
        self._expected[frame.session] = max(expected, frame.offset + len(frame.data))
        if len(self._expected) > MAX_SESSIONS:
            del self._expected[next(iter(self._expected))]
        return frame.data[known:], max(0, frame.offset - expected)

    def _without_echo(self, frame: Output, data: bytes) -> bytes:
        """Leave out the prompt that a log repeats before the line that was typed; break the line for anything else."""
        prompt, self._prompt = self._prompt, None
        if prompt is None:
            return data
        echo = prompt.text.encode("utf-8", "replace")
        start = frame.offset + len(frame.data) - len(data)
        return data[len(echo) :] if start == prompt.offset and data.startswith(echo) else b"\n" + data

    def _show_prompt(self, at: float) -> bytes:
        """Show a new prompt once all of the log before it is shown."""
        seen = self._seen
        prompt = seen.prompt if seen is not None and self._is_log else None
        if prompt is None or seen is None:
            # The prompt that was answered stays on the screen until the log repeats it.
            return b""
        if self._prompt is not None and self._prompt.number == prompt.number:
            return b""
        if self._expected.get(seen.session) != prompt.offset:
            return b""
        self._prompt = prompt
        start = "\r\n" if self._column else ""
        self._column = True
        return self._line(at, OUTPUT, start + TextFilter().feed(prompt.text.encode("utf-8", "replace")))


_NO_SCREEN = ScreenInfo(0.0, 0, "", 24, 80)

_ENCODERS: dict[type[Happening], Callable[[StopCast, Any], bytes]] = {
    ScreenInfo: StopCast._see,
    Shown: StopCast._show,
    Typed: StopCast._type,
    Marker: StopCast._say,
    Missing: StopCast._miss,
}
