"""What a stop keeps a rank for after a crash."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Crash:
    """Hold the exception of a crash; ``ends`` is what ends by it once the rank is let go, empty if nothing does."""

    error: BaseException
    ends: str = ""
