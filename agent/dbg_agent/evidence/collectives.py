"""Which collectives this process knows of: those of each library that the program has loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbg_agent.evidence.mpi import LIBRARY as MPI
from dbg_agent.evidence.mpi import mpi_seen
from dbg_agent.evidence.torch_collectives import LIBRARY as TORCH
from dbg_agent.evidence.torch_collectives import torch_seen
from dbg_wire.records.evidence import MAX_COLLECTIVES, CollectiveSeen, CollectiveState, GroupSeen, SourceSeen
from dbg_wire.records.record import fitted

Seen = SourceSeen | GroupSeen | CollectiveSeen


def collectives_seen(*, is_still: bool = False) -> list[Seen]:
    """Return the sources, groups and collectives; empty if the program has loaded no library that has any.

    Unfinished collectives come first, the oldest first. ``is_still`` says that the program's thread waits, so that a
    look which takes longer stops nothing.
    """
    seen = [*_guarded(TORCH, lambda: torch_seen(is_still)), *_guarded(MPI, mpi_seen)]
    collectives = [record for record in seen if isinstance(record, CollectiveSeen)]
    others = [record for record in seen if not isinstance(record, CollectiveSeen)]
    return [*others, *sorted(collectives, key=_order)[:MAX_COLLECTIVES]]


def _guarded(library: str, look: Callable[[], Sequence[Seen]]) -> list[Seen]:
    try:
        return list(look())
    except Exception as error:
        # A newer library has other internals, or the program has changed them.
        return [fitted(SourceSeen, library=library, lack=f"{library} can't be read ({type(error).__name__})")]


def _order(collective: CollectiveSeen) -> tuple[bool, float]:
    return collective.state is CollectiveState.COMPLETED, -(collective.age or 0.0)
