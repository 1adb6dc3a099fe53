"""The text and the fingerprint of one value while it is looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from dbg_agent.values.budget import Effort, NotCompared, OutOfTime, sentence_of
from dbg_agent.values.fingerprint import Fingerprint
from dbg_agent.values.text import ValueText


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
