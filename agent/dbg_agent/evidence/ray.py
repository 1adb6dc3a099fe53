"""The actors of Ray for whose results a thread waits, as Ray's own tables name them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from dbg_agent.evidence.process import command_of
from dbg_agent.process.threads import within
from dbg_wire.errors import printable

_ASKING_SECONDS = 0.5
"""Seconds that Ray's tables may take. They are in another process, which usually answers in a millisecond."""

MAX_ACTORS = 8
"""Pending results whose actors are looked up."""

_ALIVE = "ALIVE"


class Actor(NamedTuple):
    """An actor: its class, its state in Ray's words, and its process; ``pid`` is None on another host."""

    name: str
    state: str
    pid: int | None
    title: str


def pending_actors(refs: Sequence[Any]) -> list[Actor]:
    """Return the actors that are to return these results and have not yet; empty for tasks, or if Ray is silent."""
    worker: Any = sys.modules.get("ray._private.worker")
    tables: Any = sys.modules.get("ray._private.state")
    if worker is None or tables is None:
        return []
    return within(_ASKING_SECONDS, lambda: _pending(worker.global_worker, tables, refs), [])


def _pending(worker: Any, tables: Any, refs: Sequence[Any]) -> list[Actor]:
    try:
        refs = list(dict.fromkeys(refs))
        _, pending = worker.core_worker.wait(refs, len(refs), 0, False)
        ids = dict.fromkeys(ref.task_id().actor_id() for ref in pending[:MAX_ACTORS])
        host = worker.node_ip_address
        return [_actor(tables.actors(one.hex()), host) for one in ids if not one.is_nil()]
    except Exception:  # another release of Ray has other tables, or their process has ended
        return []


def _actor(row: Any, host: str) -> Actor:
    name, state, address = str(row["ActorClassName"]), str(row["State"]), str(row["Address"]["IPAddress"])
    pid = int(row["Pid"])
    if state != _ALIVE:
        return Actor(name, state, None, f"{printable(name)}, which is {printable(state)}")
    if address != host:
        return Actor(name, state, None, f"{printable(name)} of process {pid} on {printable(address)}")
    return Actor(name, state, pid, f"{printable(name)} of process {command_of(pid)}")
