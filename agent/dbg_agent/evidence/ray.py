"""The actors of Ray for whose results a thread waits, as Ray's own tables name them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from dbg_agent.host.descriptors import Waited
from dbg_agent.host.process import named
from dbg_agent.process.threads import within
from dbg_wire.records.evidence import Doing, NamedProcess
from dbg_wire.records.record import fitted

ASKING_SECONDS = 0.5
"""Seconds that Ray's tables may take. They are in another process, which usually answers in a millisecond."""

MAX_ACTORS = 8
"""Pending results whose actors are looked up."""


def pending_actors(wait: Doing, refs: Sequence[Any]) -> Waited:
    """Return a wait with the actors that are to return these results and have not yet.

    They are none for tasks, or if Ray is silent. The process is that of the first one on this host.
    """
    worker: Any = sys.modules.get("ray._private.worker")
    tables: Any = sys.modules.get("ray._private.state")
    none: list[tuple[str, int]] = []
    rows = within(ASKING_SECONDS, lambda: _pending(worker, tables, list(dict.fromkeys(refs))), none)
    processes = tuple(named(pid) if pid else NamedProcess(pid=0) for _, pid in rows)
    names = tuple(name for name, _ in rows)
    told = fitted(Doing, what=wait.what, names=names, processes=processes)
    return told, next((pid for _, pid in rows if pid), None)


def _pending(worker: Any, tables: Any, refs: list[Any]) -> list[tuple[str, int]]:
    """Return the actors' classes, and their processes, 0 for one that is on another host or does not live."""
    try:
        own = worker.global_worker
        _, pending = own.core_worker.wait(refs, len(refs), 0, False)
        ids = dict.fromkeys(ref.task_id().actor_id() for ref in pending[:MAX_ACTORS])
        rows = [tables.actors(one.hex()) for one in ids if not one.is_nil()]
        return [(str(row["ActorClassName"]), _pid(row, own.node_ip_address)) for row in rows]
    except Exception:  # another release of Ray has other tables, or their process has ended
        return []


def _pid(row: Any, here: str) -> int:
    return int(row["Pid"]) if row["State"] == "ALIVE" and str(row["Address"]["IPAddress"]) == here else 0
