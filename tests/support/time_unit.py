"""The one unit of time for every time-out of the tests.

A time-out says when a test gives up; a test that passes waits for events, and hardly ever for a time-out. Time-outs are
therefore generous, and ``DBG_TEST_UNIT`` stretches all of them at once on a slow machine.
"""

from __future__ import annotations

import os

CI_FACTOR = 3.0
"""Shared CI machines sometimes stall for seconds at a time; a laptop does not."""

UNIT = float(os.environ.get("DBG_TEST_UNIT") or (CI_FACTOR if os.environ.get("CI") else 1.0))


def seconds(count: float) -> float:
    """Return ``count`` seconds as this machine counts them."""
    return count * UNIT
