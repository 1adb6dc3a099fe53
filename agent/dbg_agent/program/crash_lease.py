"""For how long a crashed rank is kept, and for how long it waits for a broker before."""

from __future__ import annotations

import os

from ..rank.rank import Rank
from ..settings import CRASH_LEASE_SECONDS, Settings
from .own_rank import connected_rank

UNANSWERED_SECONDS = 2.0
"""Seconds for which a crashed rank waits where nobody takes its connections: a broker's kernel takes one at once,
however busy the broker is, and a process that is about to end is not kept from it."""

_installed: float | None = None


def note_installed(lease: float | None) -> None:
    """Have crashes kept for so many seconds by the word of ``install``; it is no default of other stops."""
    global _installed  # noqa: PLW0603 - one per process
    _installed = lease


def installed() -> float | None:
    """Return for how many seconds crashes are kept by the word of ``install``."""
    return _installed


def crash_lease(settings: Settings) -> float:
    """Return for how many seconds a crashed rank is kept; in a test run nobody comes to look."""
    if settings.lease is not None:
        return settings.lease
    return 0.0 if is_test_run() else CRASH_LEASE_SECONDS


def is_test_run() -> bool:
    """Tell whether this is a run of tests, where nobody comes to look."""
    return bool(os.environ.get("CI"))


def crashed_rank(settings: Settings) -> Rank | None:
    """Return this rank once the broker knows it; None if it goes on without, soon if nobody at all answers."""
    return connected_rank(settings, UNANSWERED_SECONDS)
