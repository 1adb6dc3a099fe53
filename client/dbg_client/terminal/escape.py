"""Streaming parser that finds the escape prefix among the keys that a terminal sends.

All keys go to the rank's debugger, except the prefix and the key after it, which are a command to the client. The
parser uses no clock: the second key may arrive at any time. If bytes have two possible meanings, only the bytes and
their grouping into reads decide. The terminal sends plain bytes, because a session switches off the encodings of modern
keyboards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from dbg_client.verbs.preferences import DEFAULT_PREFIX

HELP = "?"
COMMANDS = frozenset("d.?rnpw:")

_KEYS = (
    ("d  or  .", "detach: the rank stays as it is"),
    ("n / p", "next / previous stopped rank of this job"),
    ("r", "pick another rank"),
    (":", "a command to any ranks: where all, e 0-7 loss, release, help"),
    ("w", "take the keyboard"),
    ("?", "this page"),
)

_LINE_KEYS = """\
detach      leave the rank as it is
Ctrl-C      drop the line; interrupt what runs
Ctrl-D      ask whether to continue, kill or stay
Tab         complete
Alt-Enter   begin another line of the same block
help        the debugger's own help"""

PASTE_START = b"\x1b[200~"
PASTE_END = b"\x1b[201~"
_PASTE_END = re.compile(re.escape(PASTE_END))

MAX_SEQUENCE = 64
"""Maximum number of bytes of one key's escape sequence; the longest in use is a mouse report of about 20 bytes."""

_COMPLETE = re.compile(
    rb"\x1b\[M[\x20-\xff]{3}"  # the oldest form of mouse report: three bytes follow the letter
    rb"|\x1b\[\[[ -~]"  # F1 to F5 of the Linux console
    rb"|\x1b\[(?:[0-?]+[ -/]*[@-~]|[ -/]*[@-LN-Z\\-~])"
    rb"|\x1bO[0-9;]*[@-~]"
    rb"|\x1b[ -NP-Z\\-~]"  # Alt with a key
    rb"|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_BEGUN = re.compile(
    rb"\x1b(?:\[(?:M[\x20-\xff]{0,2}|\[|[0-?]*[ -/]*)|O[0-9;]*)?"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}"
)


@dataclass(frozen=True, slots=True)
class Keys:
    """Bytes for the rank, as they were typed."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Command:
    """A command to the client: the key that followed the prefix, or ``?`` if that key has no meaning."""

    key: str


class EscapeParser:
    """Parser that splits typed bytes into keys for the rank and commands for the client.

    With ``prefix=None`` all keys are for the rank. Keys are returned unchanged, in order and at once. A key after the
    prefix may send several bytes; none of them reaches the rank. An Esc at the end of a read is taken as the Esc key,
    so that help appears at once. If the next read continues this Esc as an arrow or function key (``[``, ``O``), the
    rest of that key is dropped. Otherwise the next read begins another key. A paste after the prefix is dropped to its
    end. Inside a bracketed paste the prefix is an ordinary byte.
    """

    def __init__(self, prefix: bytes | None = DEFAULT_PREFIX) -> None:
        self._prefix = prefix
        self._marks = re.compile(b"|".join(map(re.escape, (prefix or b"", PASTE_START))))
        self._pending = False
        self._begun = b""
        """The first bytes of the key after the prefix, while that key is incomplete."""
        self._tail = b""
        """The last bytes of earlier reads, which may be the beginning of a paste mark."""
        self._pasting = self._dropping_paste = False

    @property
    def pending(self) -> bool:
        """Whether the prefix was typed and the key after it is awaited."""
        return self._pending

    def feed(self, data: bytes) -> list[Keys | Command]:
        """Parse the bytes of one read; return keys and commands in order, with neighbouring keys joined."""
        if self._prefix is None:
            return [Keys(data)] if data else []
        if data and self._begun == b"\x1b" and data[:1] not in (b"[", b"O"):
            self._begun = b""  # the earlier Esc was the Esc key: no sequence continues it
        parts: list[Keys | Command] = []
        while data:
            read = self._second if self._pending or self._begun else self._others
            part, data = read(data)
            if part is not None:
                parts.append(part)
        return _join(parts)

    def _second(self, data: bytes) -> tuple[Keys | Command | None, bytes]:
        """Parse the key after the prefix, or the rest of that key if an earlier read has cut it.

        Return the meaning of the key, None for the rest of a cut key, and the bytes after the key.
        """
        data = self._begun + data
        token, whole = _next_token(data, 0)
        is_cut = not whole and len(token) <= MAX_SEQUENCE
        self._begun = token if is_cut else b""
        self._pasting = self._dropping_paste = token == PASTE_START
        was_pending, self._pending = self._pending, False
        part: Keys | Command | None = None
        if was_pending:
            key = token.decode("latin-1")
            is_literal = token in (self._prefix, b"]")
            part = Keys(self._prefix or b"") if is_literal else Command(key if key in COMMANDS else HELP)
        return part, data[len(token) :]

    def _others(self, data: bytes) -> tuple[Keys | Command | None, bytes]:
        """Parse keys up to the next prefix or paste mark; return them and the bytes after them."""
        seen, text = len(self._tail), self._tail + data
        found = (_PASTE_END if self._pasting else self._marks).search(text)
        end = found.end() if found is not None else len(text)
        self._pending = found is not None and found.group() == self._prefix
        self._tail = b"" if found is not None else text[1 - len(PASTE_START) :]
        news = text[seen : found.start() if found is not None and self._pending else end]
        part = None if self._dropping_paste else Keys(news)
        if found is not None and not self._pending:
            self._pasting, self._dropping_paste = not self._pasting, False
        return part, text[end:]


def _next_token(data: bytes, position: int) -> tuple[bytes, bool]:
    """Return the key at ``position`` and whether it is complete; a byte that does not fit also ends a sequence."""
    if complete := _COMPLETE.match(data, position):
        return complete.group(), True
    if begun := _BEGUN.match(data, position):
        return begun.group(), begun.end() < len(data)
    return data[position : position + 1], True


def _join(parts: Iterable[Keys | Command]) -> list[Keys | Command]:
    joined: list[Keys | Command] = []
    for kind, run in groupby(parts, type):
        if kind is Command:
            joined += run
        elif keys := b"".join(part.data for part in run if isinstance(part, Keys)):
            joined.append(Keys(keys))
    return joined


def help_text(prefix: str, *, lines: bool) -> str:
    """Return the help page of a session, with ``lines`` at a line debugger; ``prefix`` is the escape key's name."""
    keys = (*_KEYS[:-1], ("]", f"send {prefix} itself"), _KEYS[-1])
    page = [f"{prefix}, then", "", *(f"  {key:<10}{does}" for key, does in keys)]
    page += ["", "All other keys go to the debugger, including Ctrl-C, except while a page like this is shown."]
    return "\n".join([*page, "", _LINE_KEYS] if lines else page)
