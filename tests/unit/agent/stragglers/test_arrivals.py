from __future__ import annotations

import json
from typing import Any

import pytest

from dbg_agent.evidence.flight_recorder import Recorder
from dbg_agent.stragglers import arrivals
from dbg_agent.stragglers.arrivals import Completions, arrivals_of
from dbg_wire.recorder.entries import recent_entries
from dbg_wire.records.evidence import GroupSeen, SourceSeen
from dbg_wire.records.samples import MAX_ARRIVALS, GroupArrivals
from tests.conftest import Approved
from tests.support.recorded import DUMPS, dump, pickled, raw
from tests.unit.agent.evidence.fake_torch import FakeTorch

MICROSECOND = 1000


def entry(number: int, at: int, **more: Any) -> dict[str, Any]:
    """Return an entry of gloo that has ended, called at so many microseconds."""
    return raw(number, "gloo:all_reduce", retired=True, time_created_ns=at * MICROSECOND, **more)


def recorder(content: bytes, *, enqueued: int = 5, completed: int = 5, pg: str = "0") -> Recorder:
    """Return a recorder of gloo with this dump."""
    status = {
        "pg_status": {pg: {"last_enqueued_collective": str(enqueued), "last_completed_collective": str(completed)}}
    }
    return Recorder("gloo", lambda: json.dumps(status).encode(), lambda: content)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """Return a torch with one group of four ranks."""
    fake = FakeTorch(monkeypatch)
    fake.add("default_pg", 0, 1, 2, 3)
    return fake


def told(
    monkeypatch: pytest.MonkeyPatch, *found: Recorder, most: int = 512, seconds: float = 10.0
) -> list[SourceSeen | GroupSeen | GroupArrivals]:
    """Return what is told of these recorders."""
    monkeypatch.setattr(arrivals, "recorders", lambda: list(found))
    completions = Completions()
    completions.look()
    return arrivals_of(most, seconds, completions)


def test_the_last_collectives_of_a_group_are_told_with_their_times(
    torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, row = told(monkeypatch, recorder(dump(entry(1, 100), entry(2, 350), enqueued=2, completed=2)))
    assert isinstance(group, GroupSeen)
    assert (group.members, group.size, group.backend) == ("0-3", 4, "gloo")
    assert isinstance(row, GroupArrivals)
    assert (row.group, row.begin, row.sequences, row.came) == (group.name, 100, (1, 2), (0, 250))
    assert (row.calls, row.which) == (("all_reduce [4] float32",), (0, 0))
    # The status has told that both had ended.
    assert min(row.ended) > 0
    assert row.took == ()


def test_sends_are_left_out_and_a_batch_counts_once(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [entry(1, 100), entry(1, 130), raw(1, "gloo:send 0->1", is_p2p=True), entry(2, 200)]
    _, row = told(monkeypatch, recorder(dump(*entries, enqueued=2)))
    assert isinstance(row, GroupArrivals)
    assert (row.sequences, row.came) == ((1, 2), (0, 100))


def test_what_nccl_tells_of_ends_and_durations_is_passed_on(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    more: dict[str, Any] = {
        "duration_ms": 1.5,
        "time_discovered_completed_ns": 900 * MICROSECOND,
        "time_discovered_started_ns": 0,
    }
    nccl = entry(1, 100, **more) | {"profiling_name": "nccl:all_reduce"}
    _, row = told(monkeypatch, recorder(dump(nccl, enqueued=1)))
    assert isinstance(row, GroupArrivals)
    assert (row.ended, row.took) == ((800,), (1500,))


def test_a_pickle_of_an_old_torch_is_read_as_well(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Recorder("nccl", None, lambda: pickled(entry(1, 100), entry(2, 200)))
    _, row = told(monkeypatch, old)
    assert isinstance(row, GroupArrivals)
    assert row.came == (0, 100)


def test_a_recorder_that_would_stop_the_program_for_too_long_is_not_read(
    approved: Approved, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never() -> bytes:
        raise AssertionError("it was read")

    full = recorder(b"", enqueued=100_000)
    (row,) = told(monkeypatch, Recorder("gloo", full.status, never), seconds=1.0)
    assert isinstance(row, SourceSeen)
    approved(row.lack)


def test_a_rank_with_many_arrivals_tells_the_newest(torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    content = dump(*(entry(number, 10 * number) for number in range(1, 601)), enqueued=600)
    _, row = told(monkeypatch, recorder(content, enqueued=600))
    assert isinstance(row, GroupArrivals)
    assert (len(row.came), row.sequences[-1]) == (MAX_ARRIVALS, 600)
    _, row = told(monkeypatch, recorder(content, enqueued=600), most=64)
    assert isinstance(row, GroupArrivals)
    assert len(row.came) == 64


def test_a_recorder_that_holds_something_else_is_told(
    approved: Approved, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = told(monkeypatch, recorder(b'{"entries":[{"collective_seq_id":1}]}'))
    assert isinstance(row, SourceSeen)
    approved(row.lack)


def test_without_a_recorder_the_stacks_tell(
    approved: Approved, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = told(monkeypatch)
    assert isinstance(row, SourceSeen)
    approved(row.lack)


def test_a_program_without_torch_tells_nothing() -> None:
    assert arrivals_of(512, 10.0, Completions()) == []


def test_an_end_is_known_from_the_first_status_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    completions = Completions()
    for completed in (3, 3, 5):
        monkeypatch.setattr(arrivals, "recorders", lambda completed=completed: [recorder(b"", completed=completed)])
        completions.look()
    third, fourth = completions.ended_by("gloo", "0", 3), completions.ended_by("gloo", "0", 4)
    assert third is not None
    assert fourth is not None
    assert third <= fourth == completions.ended_by("gloo", "0", 5)
    assert completions.ended_by("gloo", "0", 6) is None
    assert completions.ended_by("nccl", "0", 3) is None


@pytest.mark.parametrize("name", ["gloo_2_13.json", "gloo_2_14.json", "gloo_2_14.pickle"])
def test_dumps_of_real_jobs_have_times(name: str) -> None:
    entries = recent_entries((DUMPS / name).read_bytes(), 4)
    assert entries
    times = [int(one["time_created_ns"]) for one in entries]
    assert times == sorted(times)
    assert times[0] > 10**18
