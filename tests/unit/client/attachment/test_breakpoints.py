"""Breakpoints that were set in all ranks that a terminal was attached to."""

from __future__ import annotations

from dbg_client.core.left_breakpoints import Breakpoints
from dbg_wire.records.ranks import Breakpoint


def at(line: int, condition: str | None = None, file: str = "/home/me/train.py") -> Breakpoint:
    return Breakpoint(file=file, line=line, condition=condition)


def test_breakpoints_of_all_ranks_are_in_order_and_each_is_there_once() -> None:
    kept = Breakpoints()
    kept.note("rank 1", (at(44, "loss > 9"), at(7)))
    kept.note("rank 0", (at(9, file="/home/me/data.py"), at(44), at(7)))

    assert kept.all == (at(9, file="/home/me/data.py"), at(7), at(44), at(44, "loss > 9"))


def test_what_was_cleared_is_gone_unless_another_rank_has_it() -> None:
    kept = Breakpoints()
    kept.note("rank 0", (at(7), at(44)))
    kept.note("rank 1", (at(44),))
    kept.note("rank 0", ())

    assert kept.all == (at(44),)


def test_a_change_is_told_and_the_same_again_is_not() -> None:
    told: list[tuple[Breakpoint, ...]] = []
    kept = Breakpoints(told.append)
    for breakpoints in ((), (at(7),), (at(7),), ()):
        kept.note("rank 0", breakpoints)

    assert told == [(at(7),), ()]
