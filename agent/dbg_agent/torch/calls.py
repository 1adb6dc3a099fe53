"""The process groups of torch in this process, and the collectives on the stacks of threads.

Nothing here calls Python code of torch or of the program. Stacks also show calls that torch's flight recorders don't
record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

from dbg_agent.frames.expressions import CallSite, call_site
from dbg_agent.frames.stacks import all_frames, is_users_file, outward, place_of
from dbg_agent.frames.variables import UNKNOWN, is_traced, is_traced_within, local
from dbg_agent.torch.flight_recorder import NATIVE_MODULE
from dbg_wire.recorder.seen import NO_DESCRIPTION, name_of
from dbg_wire.records.ranks import Place

MODULE = "torch.distributed.distributed_c10d"
"""The module in which torch stores its groups."""

MAX_GROUPS = 128
"""Maximum number of groups that one rank reports: with five kinds of parallelism a rank is in some 20 groups."""

MAX_FRAMES = 1000
"""Maximum number of frames of a stack that are searched, from the innermost one."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A process group; ``ranks`` are global, in the order of the group.

    ``sequence`` is the number of collectives that the group has counted, or None if torch has no such number.
    """

    name: str
    title: str
    ranks: tuple[int, ...]
    backends: tuple[str, ...]
    sequence: int | None
    handle: object


def process_groups(module: ModuleType) -> list[Group]:
    """Return the groups of this process, in the order of their creation. Any thread may call it.

    Entries that the program has replaced by other objects are omitted.
    """
    names, members, config = (_table(module, name) for name in ("_pg_names", "_pg_group_ranks", "_pg_backend_config"))
    native = _native_class()
    found: list[Group] = []
    for handle in list(names)[:MAX_GROUPS]:
        # The program may derive a class from torch's. Reading attributes of its instances could run the program's code.
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
    title = description if description not in NO_DESCRIPTION else name[:12]
    if is_first and description in NO_DESCRIPTION:
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
    """Return the distinct names of the backends in a string such as ``cpu:gloo,cuda:nccl``."""
    if not isinstance(config, str):
        return ()
    return tuple(dict.fromkeys(part.rpartition(":")[2] for part in config.split(",") if part))


_PEERS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
"""Point-to-point functions, each with the name of its argument for the peer's global rank."""

_ROOTS = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
"""Collectives with a root, each with the name of its argument for the root's global rank."""

_COLLECTIVES = frozenset(
    {
        *("all_gather", "all_gather_into_tensor", "all_reduce", "all_reduce_coalesced", "all_to_all"),
        *("all_to_all_single", "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor"),
        *("scatter", "monitored_barrier", "all_gather_single", "reduce_scatter_single", "all_gather_coalesced"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that a thread is in; ``peer`` and ``root`` are global ranks, or ranks of the group if ``is_local``."""

    group: object
    name: str
    peer: int | None = None
    is_local: bool = False
    tensor: object = None
    tag: int | None = None
    root: int | None = None
    place: Place | None = field(default=None, compare=False)
    """Place of the call in the user's code."""

    @property
    def is_p2p(self) -> bool:
        """Whether the call is a point-to-point operation."""
        return self.name in _PEERS


def calls_on_stacks(module: ModuleType) -> list[Call]:
    """Return the innermost call of each thread that is in a call."""
    own = module.__dict__
    found = []
    for frame in list(all_frames().values()):
        call = _innermost(frame, own)
        if call is not None:
            found.append(replace(call, place=_called_at(next(_frames(frame, own), frame))))
    return found


def _called_at(frame: FrameType) -> Place | None:
    """Return the place of the innermost frame whose code belongs to the user."""
    users = (one for one in islice(outward(frame), MAX_FRAMES) if is_users_file(one.f_code.co_filename))
    return next(map(place_of, users), None)


def groups_being_created(module: ModuleType, everybody: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return, for each thread that is creating a group, the global ranks that it waits for."""
    found = []
    for innermost in list(all_frames().values()):
        frames = list(_frames(innermost, module.__dict__))
        making = next((frame for frame in frames if frame.f_code.co_name == "_new_group_with_tag"), None)
        if making is not None:
            # At the end of the creation, torch waits in a barrier: for all ranks of the job, or, with
            # `use_local_synchronization`, only for the group's members.
            in_store = frames[0].f_code.co_name == "_store_based_barrier"
            ranks = local(making, "ranks")
            if in_store and local(making, "use_local_synchronization") is not True:
                ranks = everybody
            if type(ranks) in (list, tuple) and all(type(rank) is int for rank in ranks):
                found.append(tuple(sorted(set(ranks))))
    return found


def _innermost(frame: FrameType | None, own: dict[str, object]) -> Call | None:
    frames = list(_frames(frame, own))
    if frames and is_traced_within(frame, frames[-1]):
        return None
    # `send` calls `isend` and waits. The call to report is the outer one.
    for number, inner in enumerate(frames):
        outer = frames[number + 1] if number + 1 < len(frames) else None
        name = inner.f_code.co_name
        if name in _PEERS:
            is_of_outer = outer is not None and outer.f_code.co_name == name.removeprefix("i")
            return _p2p(outer if is_of_outer and outer is not None else inner)
        if name in _COLLECTIVES:
            root, is_local = _partner(inner, _ROOTS[name]) if name in _ROOTS else (None, False)
            tensors = (_argument(inner, argument) for argument in ("tensor", "input_tensor", "input"))
            tensor = next((one for one in tensors if one is not None), None)
            return Call(group=_argument(inner, "group"), name=name, is_local=is_local, tensor=tensor, root=root)
    site = call_site(frame, reads=not is_traced([frame])) if frame is not None and not frames else None
    return _of_group(site.made) if site is not None and site.called.name == "wait" else None


def _of_group(made: CallSite | None) -> Call | None:
    """Return the collective whose result a thread waits for; None if no process group's method made that result."""
    name = name_of(made.called.name)[0] if made is not None else ""
    is_call = made is not None and type(made.called.owner) is _native_class() and name in _COLLECTIVES
    return Call(group=made.called.owner, name=name) if made is not None and is_call else None


def _frames(frame: FrameType | None, own: dict[str, object]) -> Iterator[FrameType]:
    """Return the stack's frames in torch's module, innermost first."""
    return (one for one in islice(outward(frame), MAX_FRAMES) if one.f_globals is own)


def _p2p(frame: FrameType) -> Call:
    name = frame.f_code.co_name
    peer, is_local = _partner(frame, _PEERS[name])
    tag = _argument(frame, "tag")
    return Call(
        group=_argument(frame, "group"),
        name=name.removeprefix("i"),
        peer=peer,
        is_local=is_local,
        tensor=_argument(frame, "tensor"),
        tag=tag if type(tag) is int else None,
    )


def _partner(frame: FrameType, argument: str) -> tuple[int | None, bool]:
    """Return the rank argument of a call, and True if it is a rank of the group, not a global one."""
    # A caller passes the global rank (`src`) or the rank in the group (`group_src`), and torch sets the other argument.
    of_group = _argument(frame, f"group_{argument}")
    is_local = type(of_group) is int
    number = of_group if is_local else _argument(frame, argument)
    return number if type(number) is int else None, is_local


def _argument(frame: FrameType, name: str) -> object:
    """Return an argument of a frame's function, or None if this release of torch does not have it."""
    value = local(frame, name)
    return None if value is UNKNOWN else value


def group_of(call: Call, groups: list[Group]) -> Group | None:
    """Return the group of a call. A call without a group uses the first group, which contains all ranks."""
    if call.group is None:
        return groups[0] if groups else None
    return next((group for group in groups if group.handle is call.group), None)


def shape_of(tensor: object) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Return shape and type of a tensor; empty for an object of another class, because reading it might run code."""
    torch = sys.modules.get("torch")
    if torch is None or type(tensor) is not vars(torch).get("Tensor"):
        return (), ()
    return (tuple(int(size) for size in tensor.shape),), (str(tensor.dtype).removeprefix("torch."),)  # type: ignore[attr-defined]
