"""All libraries together: order, number, and what is left when one of them can't be read."""

from __future__ import annotations

import pytest

from dbg_agent.evidence import gather
from dbg_agent.evidence.gather import collectives_seen
from dbg_wire.records.evidence import MAX_COLLECTIVES, CollectiveSeen, CollectiveState, SourceSeen


def seen(age: float | None, state: CollectiveState = CollectiveState.ENQUEUED) -> CollectiveSeen:
    """Return a collective that was called so long ago."""
    return CollectiveSeen(group="0", name="all_reduce", state=state, age=age)


def test_unfinished_ones_come_first_and_the_oldest_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    done = seen(99.0, CollectiveState.COMPLETED)
    source = SourceSeen(library="torch")
    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [done, seen(1.0), source, seen(5.0)])
    monkeypatch.setattr(gather, "mpi_seen", lambda: [seen(None)])
    assert collectives_seen() == [source, seen(5.0), seen(1.0), seen(None), done]


def test_the_number_of_collectives_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [seen(1.0)] * 10_000)
    monkeypatch.setattr(gather, "mpi_seen", list)
    assert len(collectives_seen()) == MAX_COLLECTIVES


def test_a_library_that_cant_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise AttributeError("gone")

    monkeypatch.setattr(gather, "torch_seen", lambda is_still: [])
    monkeypatch.setattr(gather, "mpi_seen", fails)
    assert collectives_seen() == [SourceSeen(library="mpi4py", lack="mpi4py can't be read (AttributeError)")]
