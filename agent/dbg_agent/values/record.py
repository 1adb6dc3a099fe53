"""The record of one value while it is looked at: its text and fingerprint, and the budget of time and bytes for it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from dbg_agent.values.fingerprint import Fingerprint
from dbg_agent.values.text import ValueText
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


class ValueRecord(ABC):
    """Text and fingerprint of one value, within an effort; with ``stats`` the text has figures as well."""

    compares = True
    """Whether the content of a value is fed to the fingerprint; otherwise only what the text shows is looked at."""

    def __init__(self, effort: Effort, *, stats: bool) -> None:
        self.effort = effort
        self.stats = stats
        self.text = ValueText()
        self.fingerprint = Fingerprint()

    @abstractmethod
    def value(self, value: Any) -> None:
        """Look at a value and everything in it."""

    def unseen(self, value: object) -> None:
        """Look at a value without its text."""
        shown, self.text = self.text, ValueText()
        try:
            self.value(value)
        finally:
            self.text = shown

    def attempt(self, look: Callable[[], None]) -> None:
        """Look at one part of a value; if that fails, give up on digests and keep the text."""
        try:
            look()
        except OutOfTime:
            raise
        except NotCompared as error:
            self.effort.give_up(error.reason)
        except Exception as error:
            self.effort.give_up(sentence_of(error))
