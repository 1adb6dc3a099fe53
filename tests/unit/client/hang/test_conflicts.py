"""Calls of one collective that differ: by their names, their roots, their data, and by a loop that some have left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_client.core.collective_matching import match_collectives
from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.conflicts import Difference, difference_of, sides
from dbg_client.hang.explain import JobLook, explain
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_wire.records.evidence import CollectiveSeen, LoopSeen, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place
from tests.support.rank_evidence import MAIN, call, done, elsewhere, group, told

TORCH = Place(file="/venv/torch/distributed/distributed_c10d.py", line=9, function="all_reduce")


def at(number: int, seen: CollectiveSeen, *frames: Place, loops: tuple[LoopSeen, ...] = ()) -> RankEvidence:
    """Return a rank whose main thread is in a collective, below these frames, of which some are in loops."""
    stack = (*frames, TORCH.replace(function=seen.name))
    one = told(number, groups=[group(at=4)], calls=[seen, done(4)], frames=stack, age=60.0)
    wait = ThreadWait(thread="MainThread", kind=WaitKind.COLLECTIVE, text="", is_main=True, frames=stack, loops=loops)
    assert one.evidence is not None
    return replace(one, evidence=replace(one.evidence, waits=(wait,)))


def verdict_on(*everybody: RankEvidence) -> Verdict:
    return explain([JobLook(at=0.0, everybody=everybody)], 0.0).verdicts[0]


def of(*calls: CollectiveSeen) -> tuple[Difference | None, list[tuple[str, list[int]]]]:
    """Return in what calls of ranks 0 and on differ, and how."""
    rest = range(len(calls), 4)
    everybody = [
        told(n, groups=[group(at=4)], calls=[one]) for n, one in enumerate([*calls, *(calls[-1] for _ in rest)])
    ]
    (standing,) = match_collectives(everybody)[0].standings
    return difference_of(standing), sides(standing)


def test_names_count_before_roots_and_roots_before_data() -> None:
    assert of(call(5), call(5)) == (None, [("all_reduce", [0, 1, 2, 3])])
    assert of(call(5, "barrier", root=1), call(5, root=0))[0] is Difference.NAME
    assert of(call(5, "broadcast", root=1, size=8), call(5, "broadcast", root=0)) == (
        Difference.ROOT,
        [("root 0", [1, 2, 3]), ("root 1", [0])],
    )
    assert of(call(5, size=8), call(5)) == (
        Difference.DATA,
        [("float32, 4 KiB [1024]", [1, 2, 3]), ("float32, 8 B [1024]", [0])],
    )
    assert of(call(5, "all_to_all", size=8), call(5, "all_to_all"))[0] is None


IN_LOOP = LoopSeen(frame=0, first=38, last=44)


@pytest.mark.parametrize(
    ("line", "loops", "told"),
    [
        (47, (IN_LOOP,), "left the loop at train.py:38 early, and "),
        (47, (LoopSeen(frame=0, first=40, last=42), IN_LOOP), "left the loop at train.py:38 early, and "),
        (43, (LoopSeen(frame=0, first=40, last=42), IN_LOOP), "left the loop at train.py:40 early, and "),
        # It is elsewhere in the loop, before it, or the others are in none that ends.
        (43, (IN_LOOP,), ""),
        (30, (IN_LOOP,), ""),
        (47, (), ""),
        (47, (LoopSeen(frame=1, first=38, last=44),), ""),
    ],
)
def test_a_rank_that_left_the_loop_early_is_told_so(line: int, loops: tuple[LoopSeen, ...], told: str) -> None:
    others = [at(n, call(5), MAIN, loops=loops) for n in (0, 2, 3)]

    verdict = verdict_on(*others, at(1, call(5, "barrier"), MAIN.replace(line=line)))

    assert (verdict.kind, verdict.ranks) == (VerdictKind.ORDER, (1,))
    assert verdict.sentence == (
        f"rank 1 (gpu013) {told}went on to barrier after all_reduce #4 of dp_0, where ranks 0,2-3 called all_reduce #5 "
        "1 min ago"
    )


def test_a_rank_in_another_function_has_left_no_loop() -> None:
    others = [at(n, call(5), MAIN, loops=(IN_LOOP,)) for n in (0, 2, 3)]

    verdict = verdict_on(*others, at(1, call(5, "barrier"), MAIN.replace(line=47, function="evaluate")))

    assert "loop" not in verdict.sentence


def test_a_group_without_a_name_is_called_a_group() -> None:
    waits = [
        told(n, groups=[group("3", "0-3", title="3", at=4)], calls=[call(5, group="3")], age=60.0) for n in (0, 1, 3)
    ]

    verdict = verdict_on(*waits, elsewhere(2))

    assert "all_reduce #5 of group 3" in verdict.sentence
    assert verdict.group == "3"
