"""The process groups that torch keeps in this process: names, global ranks and backends, without a call into Python."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dbg_agent.evidence.flight_recorder import NATIVE_MODULE

MODULE = "torch.distributed.distributed_c10d"
"""The module in which torch keeps its groups."""

MAX_GROUPS = 128
"""Groups that one rank tells of: a rank of a model with five kinds of parallelism is in some twenty."""

_NAMELESS = frozenset({"", "undefined", "default_pg"})
"""Descriptions that say nothing: those of groups that the program has not described."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A process group; ``ranks`` are global, in the order of the group; ``sequence`` is None if torch can't tell."""

    name: str
    title: str
    ranks: tuple[int, ...]
    backends: tuple[str, ...]
    sequence: int | None
    handle: object


def process_groups(module: ModuleType) -> list[Group]:
    """Return the groups of this process, in the order of their creation; from any thread.

    Entries that the program has replaced by something else are left out.
    """
    names, members, config = (_table(module, name) for name in ("_pg_names", "_pg_group_ranks", "_pg_backend_config"))
    native = _native_class()
    found: list[Group] = []
    for handle in list(names)[:MAX_GROUPS]:
        # A subclass in Python would run the program's code when it is asked.
        if type(handle) is not native:
            continue
        name, ranks = names.get(handle), members.get(handle)
        if isinstance(ranks, dict) and isinstance(name, str):
            found.append(_group(handle, name, ranks, config.get(handle), is_first=not found))
    return found


def _table(module: ModuleType, name: str) -> dict[Any, Any]:
    table = vars(module).get(name)
    return dict(table) if type(table) is dict else {}


def _native_class() -> object:
    module = sys.modules.get(NATIVE_MODULE)
    return vars(module).get("ProcessGroup") if module is not None else None


def _group(handle: Any, name: str, ranks: dict[Any, Any], config: object, *, is_first: bool) -> Group:
    description, sequence = "", None
    with suppress(Exception):
        description = str(handle.group_desc)
    with suppress(Exception):
        sequence = int(handle._get_sequence_number_for_group())
    title = description if description not in _NAMELESS else name[:12]
    if is_first and description in _NAMELESS:
        title = "default"
    local = sorted((at, rank) for rank, at in ranks.items() if type(at) is int and type(rank) is int)
    return Group(
        name=name,
        title=title,
        ranks=tuple(rank for _, rank in local),
        backends=_backends(config),
        sequence=sequence,
        handle=handle,
    )


def _backends(config: object) -> tuple[str, ...]:
    """Return the names of the backends in a text such as ``cpu:gloo,cuda:nccl``, each once."""
    if not isinstance(config, str):
        return ()
    return tuple(dict.fromkeys(part.rpartition(":")[2] for part in config.split(",") if part))
