"""Evidence for a question: collectives, waits, processes and code.

It is gathered in the link's thread, while the program runs or hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbg_agent.evidence.threads import processes_seen, threads_seen
from dbg_agent.evidence.unrecorded import JAX, jax_seen, mpi_seen
from dbg_agent.evidence.unrecorded import LIBRARY as MPI
from dbg_agent.host.process import process_seen
from dbg_agent.torch.collectives import torch_seen
from dbg_wire.messages import DetailLevel
from dbg_wire.recorder.seen import LIBRARY as TORCH
from dbg_wire.records.evidence import (
    MAX_COLLECTIVES,
    CollectiveSeen,
    CollectiveState,
    EvidenceRecord,
    GroupSeen,
    ProcessSeen,
    SourceSeen,
    limit_rows,
)
from dbg_wire.records.record import clamp

Seen = SourceSeen | GroupSeen | CollectiveSeen


def collectives_seen(*, is_still: bool = False) -> list[Seen]:
    """Return the sources, groups and collectives; empty if the program has not loaded a library with collectives.

    Unfinished collectives come first, the oldest first. ``is_still`` means that the program's thread is waiting, so a
    longer query does not delay it.
    """
    seen = [*_guarded(TORCH, lambda: torch_seen(is_still)), *_guarded(MPI, mpi_seen), *_guarded(JAX, jax_seen)]
    collectives = [record for record in seen if isinstance(record, CollectiveSeen)]
    others = [record for record in seen if not isinstance(record, CollectiveSeen)]
    return [*others, *sorted(collectives, key=_order)[:MAX_COLLECTIVES]]


def _guarded(library: str, look: Callable[[], Sequence[Seen]]) -> list[Seen]:
    try:
        return list(look())
    except Exception as error:
        # A newer library may have different internals, or the program has changed them.
        return [clamp(SourceSeen, library=library, limitation=f"{library} can't be read ({type(error).__name__})")]


def _order(collective: CollectiveSeen) -> tuple[bool, float]:
    return collective.state is CollectiveState.COMPLETED, -(collective.age or 0.0)


def evidence_of(look: DetailLevel, *, halted: int | None, is_still: bool = False) -> tuple[EvidenceRecord, ...]:
    """Return the rows of an answer with this level of detail; ``halted`` is the ident of a thread in a stop, or None.

    ``is_still`` means that the program has been waiting since an earlier query, so a longer query does not delay it.
    No exception of the program's objects propagates: unreadable data is reported in a SourceSeen, or omitted.
    """
    records: list[EvidenceRecord] = [*collectives_seen(is_still=is_still)]
    if look is DetailLevel.EVIDENCE:
        waits = threads_seen(halted)
        records += [*waits, *processes_seen(waits), process_seen()]
    # An answer has at least one row, which is empty if there is no data.
    return limit_rows(records or [ProcessSeen()])
