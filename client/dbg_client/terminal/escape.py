"""A streaming parser that finds the escape prefix among the keys that a terminal sends.

Everything that a user types goes to the rank's debugger, except the prefix and the key after it, which are a command to
the client. This module reads key bytes and no clock: the second key may come at any time, and where two readings are
possible the bytes and their grouping into reads decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from dbg_client.verbs.preferences import DEFAULT_PREFIX

HELP = "?"
COMMANDS = frozenset("d.?rnpw:R")

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

    With ``prefix=None`` everything is for the rank. Keys come out unchanged, in order and at once, with one exception:
    two or more bytes that may still become the prefix as the kitty keyboard protocol or xterm's modifyOtherKeys spell
    it (``CSI 93;5u``) wait for the byte that decides. A lone Esc never waits. If a read ends with the Esc of such a
    spelling, the spelling goes to the rank as it is.

    After the prefix, a key that is a sequence of bytes is one key and is dropped whole. There too an Esc at the end
    of a read counts as the Esc key, so that help appears at once. If the next read continues it as an arrow or
    function key (``[``, ``O``), the rest is dropped as well; else the next read begins another key. A paste behind the
    prefix is dropped to its end. Inside a bracketed paste the prefix is an ordinary byte.
    """

    def __init__(self, prefix: bytes | None = DEFAULT_PREFIX) -> None:
        self._prefix = prefix
        self._spellings = _spellings(prefix) if prefix is not None else frozenset()
        self._pending = False
        self._pasting = False
        self._rest = b""  # a sequence that has begun and not ended
        self._sent = 0  # how many bytes of it have been handed on
        self._dropping = False  # it is the rest of a second key
        self._dropping_paste = False

    @property
    def pending(self) -> bool:
        """Say whether the prefix was typed and the key after it is awaited."""
        return self._pending

    @property
    def unfinished(self) -> int:
        """Return how many bytes are remembered of a sequence that has begun and not ended."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[Keys | Command]:
        """Take the bytes of one read; return what they mean, in order, neighbouring keys joined."""
        if self._prefix is None:
            return [Keys(data)] if data else []
        return _join(self._read(data)) if data else []

    def _read(self, data: bytes) -> Iterator[Keys | Command]:
        if self._rest == b"\x1b" and data[:1] not in (b"[", b"O"):
            self._forget()
        data, sent = self._rest + data, self._sent
        self._rest, self._sent = b"", 0
        position = 0
        while position < len(data):
            token, whole = _next_token(data, position)
            if not whole and len(token) <= MAX_SEQUENCE:
                self._rest, self._sent = token, max(0, sent - position)
                yield from self._begun()
                return
            yield from self._token(token, already=min(max(0, sent - position), len(token)))
            position += len(token)

    def _forget(self) -> None:
        self._rest, self._sent, self._dropping = b"", 0, False

    def _token(self, token: bytes, *, already: int) -> Iterator[Keys | Command]:
        is_prefix = not already and token in self._spellings
        if self._dropping:
            self._dropping = False
            self._dropping_paste = self._pasting = token == PASTE_START
        elif self._pending:
            self._pending = False
            yield self._second(token, is_prefix=is_prefix)
        elif is_prefix and not self._pasting:
            self._pending = True
        else:
            yield from self._key(token, already)

    def _second(self, token: bytes, *, is_prefix: bool) -> Keys | Command:
        if is_prefix or token == b"]":
            return Keys(self._prefix or b"")
        if token == PASTE_START:
            self._dropping_paste = self._pasting = True
        key = token.decode("latin-1")
        return Command(key if key in COMMANDS else HELP)

    def _key(self, token: bytes, already: int) -> Iterator[Keys | Command]:
        if not self._dropping_paste:
            yield Keys(token[already:])
        if token == PASTE_START:
            self._pasting = True
        elif token == PASTE_END:
            self._pasting = self._dropping_paste = False

    def _begun(self) -> Iterator[Keys | Command]:
        if self._dropping or self._dropping_paste or self._may_become_prefix():
            return
        if self._pending:
            self._pending, self._dropping = False, True
            yield Command(HELP)
            return
        unsent, self._sent = self._rest[self._sent :], len(self._rest)
        yield Keys(unsent)

    def _may_become_prefix(self) -> bool:
        if self._sent or len(self._rest) < 2:
            return False
        return any(spelling.startswith(self._rest) for spelling in self._spellings)


def _next_token(data: bytes, position: int) -> tuple[bytes, bool]:
    """Return the key at ``position`` and whether it is whole; a sequence broken off by a foreign byte is whole."""
    if complete := _COMPLETE.match(data, position):
        return complete.group(), True
    if begun := _BEGUN.match(data, position):
        return begun.group(), begun.end() < len(data)
    return data[position : position + 1], True


def _spellings(prefix: bytes) -> frozenset[bytes]:
    letter = ord(chr(prefix[0] + 0x40).lower())
    # Ctrl alone is 5; Caps Lock adds 64 and Num Lock 128, and neither may lock the user in.
    kitty = {f"\x1b[{letter};{modifiers}u".encode() for modifiers in (5, 69, 133, 197)}
    return frozenset({prefix, f"\x1b[27;5;{letter}~".encode()} | kitty)


def _join(parts: Iterable[Keys | Command]) -> list[Keys | Command]:
    joined: list[Keys | Command] = []
    for kind, run in groupby(parts, type):
        if kind is Command:
            joined += run
        elif keys := b"".join(part.data for part in run if isinstance(part, Keys)):
            joined.append(Keys(keys))
    return joined
