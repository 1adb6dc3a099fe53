"""Functions that stop, in a short file: PuDB highlights all of a file at each stop in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dbg_agent.rank.rank import Rank


def stop_with(rank: Rank, value: object) -> str:
    """Stop once, with this value among the variables."""
    shown = value
    rank.stopping.stop(sys._getframe(), "breakpoint")
    del shown
    return "went on"


def stop_with_each(rank: Rank, values: Sequence[object]) -> None:
    """Stop as often as there are values, with one of them among the variables."""
    for number, shown in enumerate(values, 1):
        rank.stopping.stop(sys._getframe(), "breakpoint")
        assert number
        assert shown
