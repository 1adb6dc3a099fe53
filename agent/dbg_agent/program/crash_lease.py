"""For how long a crashed rank is kept, and for how long it first waits for a broker."""

from __future__ import annotations

import os

from dbg_agent.program.own_rank import connected_rank
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import CRASH_LEASE_SECONDS, Settings

UNANSWERED_SECONDS = 2.0
"""Seconds for which a crashed rank waits if its connections are not accepted: a broker's kernel accepts at once,
however busy the broker is, and without a broker the process must not end late."""

_installed: float | None = None


def note_installed(lease: float | None) -> None:
    """Note the lease that ``install`` was given: it counts for crashes, and is no default of other stops."""
    global _installed  # noqa: PLW0603 - one per process
    _installed = lease


def installed() -> float | None:
    """Return the lease that ``install`` was given, in seconds."""
    return _installed


def crash_lease(settings: Settings) -> float:
    """Return for how many seconds a crashed rank is kept; 0 by default in a test run, where no user attaches."""
    if settings.lease is not None:
        return settings.lease
    return 0.0 if is_test_run() else CRASH_LEASE_SECONDS


def is_test_run() -> bool:
    """Tell whether this is a test run (variable ``CI``)."""
    return bool(os.environ.get("CI"))


def crashed_rank(settings: Settings) -> Rank | None:
    """Return this rank once the broker knows it; None if it goes on without, which is soon if no broker answers."""
    return connected_rank(settings, UNANSWERED_SECONDS)
