"""The actors of Ray for whose results a thread waits, as Ray's own tables name them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from dbg_agent.host.process import command_of
from dbg_agent.process.threads import within
from dbg_wire.errors import printable

ASKING_SECONDS = 0.5
"""Seconds that Ray's tables may take. They are in another process, which usually answers in a millisecond."""

MAX_ACTORS = 8
"""Pending results whose actors are looked up."""

Actor = tuple[str, int | None]
"""An actor in words, and its process; None if that is on another host or has not started."""


def pending_actors(refs: Sequence[Any]) -> list[Actor]:
    """Return the actors that are to return these results and have not yet; empty for tasks, or if Ray is silent."""
    worker: Any = sys.modules.get("ray._private.worker")
    tables: Any = sys.modules.get("ray._private.state")
    return within(ASKING_SECONDS, lambda: _pending(worker, tables, list(dict.fromkeys(refs))), [])


def _pending(worker: Any, tables: Any, refs: list[Any]) -> list[Actor]:
    try:
        own = worker.global_worker
        _, pending = own.core_worker.wait(refs, len(refs), 0, False)
        ids = dict.fromkeys(ref.task_id().actor_id() for ref in pending[:MAX_ACTORS])
        return [_actor(tables.actors(one.hex()), own.node_ip_address) for one in ids if not one.is_nil()]
    except Exception:  # another release of Ray has other tables, or their process has ended
        return []


def _actor(row: Any, here: str) -> Actor:
    name, address, pid = printable(str(row["ActorClassName"])), str(row["Address"]["IPAddress"]), int(row["Pid"])
    if row["State"] != "ALIVE":
        return f"{name}, which is {printable(str(row['State']))}", None
    if address != here:
        return f"{name} of process {pid} on {printable(address)}", None
    return f"{name} of process {command_of(pid)}", pid
