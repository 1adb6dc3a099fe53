"""A streaming parser that finds the escape prefix among the keys that a terminal sends.

Everything that a user types goes to the rank's debugger, except the prefix and the key after it, which are a command to
the client. This module reads key bytes and no clock: the second key may come at any time, and where two readings are
possible the bytes and their grouping into reads decide. The terminal sends plain bytes, because a session switches the
encodings of modern keyboards off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from dbg_client.verbs.preferences import DEFAULT_PREFIX

HELP = "?"
COMMANDS = frozenset("d.?rnpw:R")

_KEYS = (
    ("d  or  .", "detach: the rank stays as it is"),
    ("n / p", "next / previous stopped rank of this job"),
    ("r", "pick another rank"),
    (":", "a command to any ranks: where all, e 0-7 loss, release, help"),
    ("w", "take the keyboard"),
    ("R", "end the job and run it again, under dbg-attach run"),
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

MAX_SEQUENCE = 64
"""Bytes of one key's escape sequence; the longest that a terminal sends is a mouse report of some 20."""

_COMPLETE = re.compile(
    rb"\x1b\[M[\x20-\xff]{3}"  # a mouse report of the oldest kind: three bytes follow the letter
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
    """A command to the client: the key that followed the prefix, ``?`` also for a key that means nothing."""

    key: str


class EscapeParser:
    """Split typed bytes into keys for the rank and commands for the client.

    With ``prefix=None`` everything is for the rank. Keys come out unchanged, in order and at once. After the prefix, a
    key that is a sequence of bytes is one key and is dropped whole. An Esc at the end of a read counts as the Esc key
    there, so that help appears at once. If the next read continues it as an arrow or function key (``[``, ``O``), the
    rest is dropped as well; else the next read begins another key. A paste after the prefix is dropped to its end.
    Inside a bracketed paste the prefix is an ordinary byte.
    """

    def __init__(self, prefix: bytes | None = DEFAULT_PREFIX) -> None:
        self._prefix = prefix
        self._pending = False
        self._pasting = False
        self._rest = b""  # a sequence that has begun and not ended, handed on already or dropped
        self._dropping = False  # it is the rest of a second key
        self._dropping_paste = False

    @property
    def pending(self) -> bool:
        """Whether the prefix was typed and the key after it is awaited."""
        return self._pending

    @property
    def unfinished(self) -> int:
        """Bytes that are remembered of a sequence that has begun and not ended."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[Keys | Command]:
        """Take the bytes of one read; return what they mean, in order, neighbouring keys joined."""
        if self._prefix is None:
            return [Keys(data)] if data else []
        return _join(self._read(data)) if data else []

    def _read(self, data: bytes) -> Iterator[Keys | Command]:
        if self._rest == b"\x1b" and data[:1] not in (b"[", b"O"):
            self._rest, self._dropping = b"", False
        sent, data, self._rest = len(self._rest), self._rest + data, b""
        position = 0
        while position < len(data):
            token, whole = _next_token(data, position)
            position += len(token)
            news = token[min(sent, len(token)) :]
            sent = max(0, sent - len(token))
            if not whole and len(token) <= MAX_SEQUENCE:
                self._rest = token
                yield from self._begun(news)
                return
            yield from self._token(token, news)

    def _token(self, token: bytes, news: bytes) -> Iterator[Keys | Command]:
        if self._dropping:
            self._dropping = False
            self._dropping_paste = self._pasting = token == PASTE_START
        elif self._pending:
            self._pending = False
            yield self._second(token)
        elif token == self._prefix and not self._pasting:
            self._pending = True
        else:
            if not self._dropping_paste:
                yield Keys(news)
            if token == PASTE_START:
                self._pasting = True
            elif token == PASTE_END:
                self._pasting = self._dropping_paste = False

    def _second(self, token: bytes) -> Keys | Command:
        if token in (self._prefix, b"]"):
            return Keys(self._prefix or b"")
        if token == PASTE_START:
            self._dropping_paste = self._pasting = True
        key = token.decode("latin-1")
        return Command(key if key in COMMANDS else HELP)

    def _begun(self, news: bytes) -> Iterator[Keys | Command]:
        if self._pending:
            self._pending, self._dropping = False, True
            yield Command(HELP)
        elif not self._dropping and not self._dropping_paste:
            yield Keys(news)


def _next_token(data: bytes, position: int) -> tuple[bytes, bool]:
    """Return the key at ``position`` and whether it is whole; a sequence broken off by a foreign byte is whole."""
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
    """Return the help page of a session, at a line debugger or another; ``prefix`` is the escape key's name."""
    keys = (*_KEYS[:-1], ("]", f"send {prefix} itself"), _KEYS[-1])
    page = [f"{prefix}, then", "", *(f"  {key:<10}{does}" for key, does in keys)]
    page += ["", "Every other key goes to the debugger, Ctrl-C too; those typed at a page like this one don't."]
    return "\n".join([*page, "", _LINE_KEYS] if lines else page)
