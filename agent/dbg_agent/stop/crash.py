"""The crash for which a stop keeps a rank."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Crash:
    """The exception of a crash; ``ends`` says what ends by it once the rank is let go, empty if nothing does."""

    error: BaseException
    ends: str = ""
