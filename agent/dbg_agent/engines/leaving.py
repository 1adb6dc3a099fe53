"""What a debugger says of the ways out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbg_agent.rank.rank import Rank


def what_continue_does(rank: Rank) -> str:
    """Return what happens if the rank is let go from its present stop, as a clause without a subject."""
    if rank.crash is None:
        return "remove all breakpoints and let it run"
    if rank.crash_ends:
        return f"let {rank.crash_ends} end by its exception"
    return "let the program go on behind post_mortem()"
