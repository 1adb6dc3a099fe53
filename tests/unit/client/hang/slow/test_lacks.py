from __future__ import annotations

from typing import Any

import pytest

from dbg_client.core.process_groups import RankEvidence
from dbg_client.hang.slow.lacks import lacks_of
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.samples import CoreSpeed, DiskUse, Neighbour, ProcessorUse, RankSample
from tests.conftest import Approved
from tests.unit.client.fake_broker import make_rank


def sample(**changes: Any) -> RankSample:
    """Return a rank that lacks nothing in ten seconds."""
    values: dict[str, Any] = {
        "queued": 0.01,
        "faults": 0,
        "waits": 0.0,
        "pressure": 0.0,
        "frequency": 3_400_000_000,
        "main": 2.0,
        **changes,
    }

    def of(kind: Any) -> Any:
        return kind(**{name: values.pop(name) for name in kind.__struct_fields__ if name in values})

    parts = {"processors": of(ProcessorUse), "disks": of(DiskUse), "core": of(CoreSpeed)}
    return RankSample(clock=0, seconds=10.0, **parts, **values)


def lacks(others: dict[str, object] | None = None, **changes: Any) -> list[str]:
    """Return what is said of rank 3 of four."""
    samples = {number: sample(**(others or {})) for number in range(3)} | {3: sample(**changes)}
    ranks = {number: make_rank(number, pid=100 + number) for number in range(4)}
    roster = {
        number: RankEvidence(rank=rank, answer=RankAnswer(key=rank.key, kind=Kind.VALUE, text=""))
        for number, rank in ranks.items()
    }
    return lacks_of(3, samples, roster)


def test_a_rank_that_has_what_others_have_lacks_nothing() -> None:
    assert lacks() == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"periods": 100, "throttled": 83, "quota": 0.5},
            "its cgroup throttles it: the quota (0.5 cores) was used up in 83 of 100 periods",
        ),
        (
            {"still": 3.1},
            "nothing of it ran for 3.1 of 10 s: its processes were stopped, or its machine was suspended",
        ),
        ({"queued": 3.8}, "it waits for a free core in 38% of the time"),
        ({"faults": 900}, "the kernel had to read 900 of its pages from disk"),
        (
            {"faults": 900, "swapped": 3 << 20},
            "the kernel had to read 900 of its pages from disk, and 3 MiB of it are in swap",
        ),
        ({"waits": 4.0}, "its main thread waits for a disk in 40% of the time"),
        ({"pressure": 4.0}, "processes of its cgroup or host wait for disks in 40% of the time"),
        ({"frequency": 1_200_000_000}, "its core runs at 1.2 GHz, those of others at 3.4"),
        ({"heated": 12}, "heat has slowed its core down 12 times"),
        ({"main": 9.5}, "its main thread computes in 95% of the time, those of others in 20%"),
    ],
)
def test_each_thing_that_it_lacks_is_told(changes: dict[str, Any], line: str) -> None:
    assert lacks(**changes) == [line]


def test_what_the_others_lack_as_well_explains_nothing() -> None:
    assert lacks({"queued": 3.5, "waits": 4.0}, queued=3.8, waits=4.1) == []


def test_a_kernel_that_tells_nothing_is_no_reason() -> None:
    nothing: dict[str, Any] = dict.fromkeys(("queued", "faults", "waits", "pressure", "frequency", "main"))
    assert lacks(nothing, **nothing) == []


def test_who_is_on_its_cores_is_named_and_can_do_nothing_to_a_terminal(approved: Approved) -> None:
    neighbours = (
        Neighbour(pid=4711, name="stress\x1b[2J", cores=0.98),
        Neighbour(pid=101, name="python", cores=0.5),
    )
    (line,) = lacks(queued=3.8, neighbours=neighbours)
    approved(line)
