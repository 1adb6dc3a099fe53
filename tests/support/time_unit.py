"""The one unit of time that every time-out of the tests is written in.

A time-out only says when to give up: nothing waits for it to pass. It is therefore generous, and a slow machine
stretches all of them at once with ``DBG_TEST_UNIT``.
"""

from __future__ import annotations

import os

CI_FACTOR = 3.0
"""Shared CI machines were seen to stall for seconds at a time; a laptop does not."""

UNIT = float(os.environ.get("DBG_TEST_UNIT") or (CI_FACTOR if os.environ.get("CI") else 1.0))


def seconds(count: float) -> float:
    """Return ``count`` seconds as this machine counts them."""
    return count * UNIT
