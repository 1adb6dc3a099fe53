"""When those who are told of events hear that a stop ends by itself. Pure."""

from __future__ import annotations

NOTICE_SECONDS = 300.0
"""Seconds before a stop ends by itself at which that is told: enough to open a laptop."""


def notice_seconds(lease: float) -> float:
    """Return how many seconds before its end a lease is told to end: NOTICE_SECONDS, or a tenth of a short one."""
    return min(NOTICE_SECONDS, lease / 10)
