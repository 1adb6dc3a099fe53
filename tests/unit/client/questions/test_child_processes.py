"""Which ranks' guards are asked for the stacks of child processes, and what becomes of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dbg_client.core.errors import Declined
from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.verdict import Verdict, VerdictKind
from dbg_client.questions.child_processes import MAX_CHILDREN, with_children
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.beside import ChildProcess
from dbg_wire.records.evidence import Evidence, OtherProcess, ThreadWait, WaitKind
from dbg_wire.records.ranks import Place, RankInfo
from tests.support.rank_evidence import told

LIBRARY = Place(file="/venv/lib/python3.11/site-packages/torch/utils/data/fetch.py", line=7, function="fetch")
READS = Place(file="/home/me/data.py", line=17, function="Shards.__getitem__")


class Asked:
    """An asker whose guards all tell the same stack, or that is refused."""

    def __init__(self, *frames: Place, refuses: bool = False) -> None:
        self.frames = frames
        self.refuses = refuses
        self.asked: list[tuple[int, int]] = []

    async def ask(self, action: Action, ranks: Sequence[RankInfo], **more: Any) -> list[RankAnswer]:
        assert action is Action.NATIVE
        assert isinstance(more["inquiry"], ChildProcess)
        self.asked.append((ranks[0].rank, more["inquiry"].pid))
        if self.refuses:
            raise Declined("this token may only look")
        return [RankAnswer(key="", kind=Kind.VALUE, text="", frames=self.frames)]


def waiting(number: int, *, child: int | None = None) -> RankEvidence:
    """Return a rank that waits for a child process."""
    pid = 500 + number if child is None else child
    wait = ThreadWait(thread="MainThread", kind=WaitKind.CHILD, text="waits", is_main=True, holder=pid)
    return told(number, evidence=Evidence(waits=(wait,), others=(OtherProcess(pid=pid, text="sleeps"),)))


def verdict(everybody: Sequence[RankEvidence], kind: VerdictKind = VerdictKind.WAITING) -> Verdict:
    return Verdict(kind=kind, job=everybody[0].rank.job, sentence="", ranks=tuple(one.rank.rank for one in everybody))


def texts(everybody: Sequence[RankEvidence]) -> list[str]:
    return [one.evidence.others[0].text for one in everybody if one.evidence is not None]


async def test_the_first_children_are_told_with_the_users_line() -> None:
    everybody = [waiting(number) for number in range(4)]
    asker = Asked(READS, LIBRARY)
    found = await with_children(asker, [verdict(everybody)], everybody)  # type: ignore[arg-type] # as far as it is used
    assert asker.asked == [(number, 500 + number) for number in range(MAX_CHILDREN)]
    assert texts(found) == ["in data.py:17 __getitem__ sleeps"] * MAX_CHILDREN + ["sleeps"] * 2


async def test_a_child_that_has_put_more_into_a_queue_than_anybody_took_has_ended_but_for_that() -> None:
    queue = Place(file="/usr/lib/python3.11/multiprocessing/queues.py", line=199, function="Queue._finalize_join")
    everybody = [waiting(0)]
    found = await with_children(Asked(READS, queue), [verdict(everybody)], everybody)  # type: ignore[arg-type]
    assert texts(found) == ["has ended but for a Queue that nobody reads"]


async def test_a_line_of_a_program_without_a_file_is_not_told() -> None:
    everybody = [waiting(0)]
    asker = Asked(READS.replace(file="<string>"))
    assert await with_children(asker, [verdict(everybody)], everybody) == everybody  # type: ignore[arg-type]


@pytest.mark.parametrize("asker", [Asked(), Asked(LIBRARY), Asked(READS, refuses=True)])
async def test_without_a_line_of_the_user_what_the_kernel_tells_stands_alone(asker: Asked) -> None:
    everybody = [waiting(0)]
    assert await with_children(asker, [verdict(everybody)], everybody) == everybody  # type: ignore[arg-type]
    assert asker.asked == [(0, 500)]


async def test_nobody_is_asked_of_other_ranks_nor_of_a_job_that_works() -> None:
    everybody = [waiting(0), waiting(1)]
    asker = Asked(READS)
    await with_children(asker, [verdict(everybody, VerdictKind.BUSY)], everybody)  # type: ignore[arg-type]
    await with_children(asker, [], everybody)  # type: ignore[arg-type]
    of_a_rank = [waiting(0, child=everybody[1].rank.pid), told(1)]
    await with_children(asker, [verdict(of_a_rank)], of_a_rank)  # type: ignore[arg-type]
    assert asker.asked == []
