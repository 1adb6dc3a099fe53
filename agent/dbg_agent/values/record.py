"""The record of one value during a walk: its text, its fingerprint, and the budget of time and bytes for it."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from dbg_wire.limits import MAX_TEXT, MIB

MAX_VALUE_TEXT = 4096
"""Maximum number of characters of a value's text: two screens, and a quarter of the protocol's limit for one string."""

HEAD, TAIL = 2600, 900
"""Number of characters that are shown of the beginning and of the end of a text that is too long. The rest of
MAX_VALUE_TEXT is for the text's length and the remark after it."""

MAX_REMARK = 400
"""Maximum number of characters of the remark after a text."""

MAX_ANSWER = MAX_TEXT // 4
"""Maximum number of characters of one answer's text: a screenful or two. When hundreds of ranks answer, nobody reads
more than that of each."""

DIGEST_BYTES = 16
"""Number of bytes of a digest. Two different values never have the same digest by chance, in a job of any size."""

PIECE = 1 << 20
"""Number of characters of a text that are encoded at once: a large text as a whole would need a second copy in
memory."""

MAX_BYTES = 1024 * MIB
"""Maximum number of bytes of one value that are read: about a second of hashing. Users seldom compare larger values."""

MAX_REASON = 200
"""Maximum number of characters of another library's error message in a reason: usually its first line."""


class ValueText:
    """A text that is written piece by piece; only the visible part is kept."""

    def __init__(self) -> None:
        self.head = ""
        self._tail = ""
        self._length = 0

    def write(self, piece: str) -> None:
        """Add a piece of any length."""
        self._length += len(piece)
        room = HEAD - len(self.head)
        if room > 0:
            self.head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def write_ends(self, value: Any) -> None:
        """Add the literal of a long string or buffer, without making the literal of the whole."""
        # The literals of both ends are at least as long as the part that is shown. The text between the ends is only
        # counted.
        self.write(repr(value[:HEAD]))
        self._length += len(value) - HEAD - TAIL - len(repr(value[:0]))
        self.write(repr(value[-TAIL:]))

    def compose(self, *, whole: bool, remark: str) -> str:
        """Return the text, abbreviated if it is too long or not ``whole``, with ``remark`` in brackets after it."""
        text = self._abbreviated(whole=whole)
        if remark:
            text += f" [{remark[:MAX_REMARK]}]" if text else f"[{remark[:MAX_REMARK]}]"
        # A lone surrogate can't be sent as UTF-8. One character replaces it, so the text stays within its limit.
        return text.encode("utf-8", "replace").decode()

    def _abbreviated(self, *, whole: bool) -> str:
        if not whole:
            return f"{self.head} …" if self.head else ""
        if self._length <= HEAD + TAIL:
            return self.head + self._tail
        return f"{self.head} … {self._length:,} characters in all … {self._tail}"


def error_text(error: BaseException) -> str:
    """Return the class and the message of an exception, of any length, even if its ``str`` fails."""
    try:
        text = str(error)
    except BaseException as worse:
        # All exceptions are caught, so that there is a text even if str() raises SystemExit, or is interrupted because
        # it never ends.
        text = f"its str raises {type(worse).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def abridged(text: str) -> str:
    """Return a text that fits into an answer, without its middle if it is too long."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    if len(clean) <= MAX_ANSWER:
        return clean
    half = MAX_ANSWER // 2 - 20
    return f"{clean[:half]} … [{len(clean)} characters] … {clean[-half:]}"


_ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]{6,}(?=(?:[;:, ][^\n>]{0,300})?>)")
"""A memory address as reprs show it: ``<Model object at 0x7f0000000010>``. Other hexadecimal numbers are values."""


class Fingerprint:
    """The digest of all data that is added; the memory addresses in reprs are left out."""

    __slots__ = ("_digest",)

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=DIGEST_BYTES)

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._digest.update(data)

    def feed_repr(self, kind: str, text: str) -> None:
        """Add a repr as :meth:`feed_text` adds a text, without its addresses."""
        self.feed_text(kind, without_addresses(text))

    def feed_text(self, kind: str, text: str) -> None:
        """Add a text with its kind and its length, so that no other texts produce the same bytes."""
        self.feed(f"{kind} {len(text)}:".encode("utf-8", "surrogatepass"))
        for start in range(0, len(text), PIECE):
            self.feed(text[start : start + PIECE].encode("utf-8", "surrogatepass"))

    def digest(self) -> bytes:
        """Return the digest."""
        return self._digest.digest()


class NoFingerprint(Fingerprint):
    """A fingerprint that ignores all data; used if only the text of a value is needed."""

    __slots__ = ()

    def feed(self, data: bytes) -> None:
        """Do nothing."""

    def feed_text(self, kind: str, text: str) -> None:
        """Do nothing."""

    def feed_repr(self, kind: str, text: str) -> None:
        """Do nothing."""


class Unordered:
    """The sum of the fingerprints of items in arbitrary order.

    Sets have another order in each rank, because each rank hashes strings with its own seed. Unlike a sorted list, a
    sum needs no memory. It distinguishes values as reliably as the fingerprints do, unless somebody constructs values
    with equal sums.
    """

    def __init__(self) -> None:
        self._sum = 0

    def add(self, fingerprint: Fingerprint) -> None:
        """Add one item."""
        self._sum += int.from_bytes(fingerprint.digest(), "big")

    def sum(self) -> bytes:
        """Return the bytes to feed for all items."""
        return (self._sum % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")


def without_addresses(text: str) -> str:
    """Return a text without the memory addresses of reprs, which differ in every process."""
    return _ADDRESS.sub("0x", text) if " at 0x" in text else text


class NotCompared(Exception):
    """Raised if part of a value can't be read, so the value can't be compared; ``reason`` explains this to users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OutOfTime(NotCompared):
    """Raised when the time is over, so that the rest of a value is not read."""


class DigestBudget:
    """The time and the bytes that one value may use, and the first reason why its digest is given up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._bytes_left = MAX_BYTES
        self.reason = ""

    def check(self) -> None:
        """Raise OutOfTime once the time is over."""
        if time.monotonic() >= self._end:
            raise OutOfTime(f"not done within {self.seconds:g} s")

    def count(self, size: int) -> None:
        """Count bytes that will be read next; raise NotCompared if they are too many, or OutOfTime."""
        self.check()
        if size > self._bytes_left:
            raise NotCompared(f"larger than {MAX_BYTES // MIB} MiB")
        self._bytes_left -= size

    def stop_digest(self, reason: str) -> None:
        """Make no digest for this value, but continue to make its text."""
        self.reason = self.reason or reason


def sentence_of(error: BaseException) -> str:
    """Return an error's type and the beginning of its message."""
    message = message_of(error).partition("\n")[0]
    name = type(error).__name__
    return f"{name}: {message[:MAX_REASON]}" if message else name


def message_of(error: BaseException) -> str:
    """Return an error's message, or "" if its ``__str__`` fails."""
    try:
        return str.__str__(str(error))
    except Exception:
        return ""


class ValueRecord(ABC):
    """Text and fingerprint of one value, within the budget ``effort``."""

    compares = True
    """Whether the content of a value is fed to the fingerprint; otherwise only the content for the text is read."""

    def __init__(self, effort: DigestBudget) -> None:
        self.effort = effort
        self.text = ValueText()
        self.fingerprint = Fingerprint()

    @abstractmethod
    def value(self, value: Any) -> None:
        """Walk through a value and everything in it."""

    def fingerprint_only(self, value: object) -> None:
        """Walk through a value only for its fingerprint."""
        shown, self.text = self.text, ValueText()
        try:
            self.value(value)
        finally:
            self.text = shown

    def attempt(self, look: Callable[[], None]) -> None:
        """Walk through one part of a value; if that fails, give up on digests and keep the text."""
        try:
            look()
        except OutOfTime:
            raise
        except NotCompared as error:
            self.effort.stop_digest(error.reason)
        except Exception as error:
            self.effort.stop_digest(sentence_of(error))
