"""Parser for a guard's pipe: faulthandler's dumps, and the lines that the rank itself writes between them.

The parser does no input or output. A dump has no end mark, so the code that reads the pipe decides when a dump is
complete. A dump may be cut off anywhere. A line that the rank writes may split a line of a dump. The rank's line can
still be recognised, because it starts with a character that no dump contains.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_agent.guard.rank_side import BEAT, CALL, CALM, END, LEAVE, MARK
from dbg_wire.limits import MAX_STACK_FRAMES
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp

MAX_DUMP = 2 * 1024 * 1024
"""Maximum number of characters kept of a dump: enough for faulthandler's limit of 100 threads with 100 frames each."""

SIGNALS = {
    "Segmentation fault": 11,
    "Bus error": 7,
    "Aborted": 6,
    "Illegal instruction": 4,
    "Floating point exception": 8,
}
"""faulthandler's names of signals, with the signals' numbers on Linux."""

_OWN = re.compile(f"{MARK}([^\n{MARK}]*)\n")
_HEADER = re.compile(r"^Fatal Python error: (.*)\n", re.MULTILINE)
_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-f]+)(?: \[.*\])? \(most recent call first\):")
_FRAME = re.compile(r'  File (?:"(.*)"|(\?\?\?)), line (\d{1,9}|\?\?\?) in (.*)')
_KERNEL_NUMBER = re.compile("[0-9]{1,10}")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


@dataclass(frozen=True, slots=True)
class Stack:
    """One thread of a dump, with its frames outermost first."""

    thread: int
    current: bool
    frames: tuple[Place, ...]


def parse_dump(text: str) -> list[Stack]:
    """Return the threads of a dump, in the order of the dump. Lines that belong to no Python stack are skipped."""
    stacks: list[Stack] = []
    frames: list[Place] | None = None
    found: list[tuple[int, bool, list[Place]]] = []
    for line in text.split("\n"):
        if (header := _THREAD.fullmatch(line)) is not None:
            frames = []
            found.append((int(header[2], 16), header[1] == "Current thread", frames))
        elif (frame := _FRAME.fullmatch(line)) is not None and frames is not None:
            frames.append(_place(frame))
        elif not line.startswith("  "):
            # An empty line ends the Python stacks. Other parts may follow, such as the C stack from Python 3.14 on.
            frames = None
    for thread, current, places in found:
        stacks.append(Stack(thread, current, tuple(reversed(places[:MAX_STACK_FRAMES]))))
    return stacks


def _place(frame: re.Match[str]) -> Place:
    line = int(frame[3]) if frame[3].isdigit() else 0
    return clamp(Place, file=_unescaped(frame[1] or ""), line=line, function=_unescaped(frame[4]))


def _unescaped(text: str) -> str:
    """Decode faulthandler's escapes of non-ASCII characters. An undecodable byte becomes ``?``."""

    def character(found: re.Match[str]) -> str:
        number = int(found[1] or found[2] or found[3], 16)
        return "?" if number > 0x10FFFF or 0xD800 <= number < 0xE000 else chr(number)

    return _ESCAPE.sub(character, text)


def choose(stacks: Sequence[Stack], main: int, *, prefer_current: bool) -> tuple[Place, ...]:
    """Return the stack to report: the current thread's if preferred, else the main thread's, else the oldest one's."""
    current = [stack for stack in stacks if stack.current]
    of_main = [stack for stack in stacks if stack.thread == main]
    for found in (current, of_main) if prefer_current else (of_main, current):
        if found:
            return found[0].frames
    # faulthandler prints the threads from the newest to the oldest.
    return stacks[-1].frames if stacks else ()


class DumpRecord:
    """The data received through the pipe.

    ``key`` is the rank's key at the broker. If there are several brokers, ``owner`` is the address of the one that the
    rank is connected to. ``thread`` is the kernel's id of the thread that sends beats, ``signal`` the fatal signal of
    the rank. ``beats`` is the number of lines that the rank has written itself, ``calls`` how often it has called the
    guard, and ``fed`` the number of bytes received.
    """

    def __init__(self, key: str, main: int, own: Sequence[str]) -> None:
        """Start empty; ``main`` is the ident of the rank's main thread, ``own`` the agent's package directories."""
        self.key, self.owner = key, ""
        self.thread: int | None = None
        self.is_calm = False
        self.is_over = False
        self.is_to_leave = False
        self.is_fatal = False
        self.signal: int | None = None
        self.beats = self.calls = 0
        self.fed = 0
        self._main = main
        self._own = tuple(folder.rstrip("/") + "/" for folder in own)
        self._text = ""

    def feed(self, data: bytes) -> None:
        """Add data from the pipe, in pieces of any size."""
        self.fed += len(data)
        self._text += data.decode("ascii", "replace")
        for own in _OWN.finditer(self._text):
            self._receive_line(own[1])
        self._text = _OWN.sub("", self._text)[-MAX_DUMP:]
        headers = list(_HEADER.finditer(self._text))
        if headers:
            self.is_fatal, self.signal = True, SIGNALS.get(headers[-1][1].strip())
            self._text = self._text[headers[-1].end() :]

    def _receive_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        thread, _, rest = rest.partition(" ")
        key, _, owner = rest.partition(" ")
        if word in (BEAT, CALM, END, LEAVE, CALL) and _KERNEL_NUMBER.fullmatch(thread) and key:
            self.beats += 1
            self.is_calm = word == CALM
            self.calls += word == CALL
            self.is_over |= word == END
            self.is_to_leave |= word == LEAVE
            self.thread, self.key, self.owner = int(thread), key, owner

    def expect(self) -> None:
        """Forget the dump received so far, because a new dump is requested."""
        self._text = ""

    @property
    def frames(self) -> tuple[Place, ...]:
        """The stack in the most recent dump, without the agent's own frames."""
        chosen = choose(parse_dump(self._text), self._main, prefer_current=self.is_fatal)
        return tuple(place for place in chosen if not place.file.startswith(self._own))
