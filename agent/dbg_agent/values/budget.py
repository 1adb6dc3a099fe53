"""The bounds on a rank's time for one value, and the reasons why a value was not looked at whole."""

from __future__ import annotations

import time

from dbg_wire.limits import MIB

MAX_BYTES = 1024 * MIB
"""Bytes of one value that are looked at: about a second of hashing. Users seldom want to compare larger values."""

MAX_REASON = 200
"""Characters of another library's error message in a reason: usually its first line."""


class NotCompared(Exception):
    """A part of a value can't be looked at whole, so the whole value can't be compared; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OutOfTime(NotCompared):
    """The time is over, so nothing more of a value is looked at."""


class Effort:
    """The time and the bytes that one value may take, and the first reason to give up on its digests."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._bytes_left = MAX_BYTES
        self.reason = ""

    def check(self) -> None:
        """Raise OutOfTime once the time is over."""
        if time.monotonic() >= self._end:
            raise OutOfTime(f"not done within {self.seconds:g} s")

    def take(self, size: int) -> None:
        """Count bytes that will be looked at next; raise NotCompared if they are too many, or OutOfTime."""
        self.check()
        if size > self._bytes_left:
            raise NotCompared(f"larger than {MAX_BYTES // MIB} MiB")
        self._bytes_left -= size

    def give_up(self, reason: str) -> None:
        """Give up on digests, but not on the text."""
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
