"""Calls into libraries that record nothing, MPI and JAX, derived from the code of the callers.

mpi4py is written in C, so its calls have no frame. A communicator is queried for its size, name and members only if MPI
was initialised with THREAD_MULTIPLE. Otherwise it is an error to call MPI while another thread is in MPI. If JAX has
several processes, a computation on all devices can't end before every process has called it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from dbg_agent.evidence.stacks import module_of
from dbg_agent.frames.expressions import CallSite, Expression, call_site
from dbg_agent.frames.stacks import all_frames, is_users_file, outward
from dbg_agent.frames.variables import UNKNOWN, class_of, is_a, is_traced
from dbg_wire.errors import printable
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import Activity, ActivityInfo, CollectiveSeen, CollectiveState, GroupSeen, SourceSeen
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import clamp

LIBRARY = "mpi4py"

MODULE = "mpi4py.MPI"
"""The C module of mpi4py."""

_DESTINATION = {"send", "Send", "ssend", "Ssend", "bsend", "Bsend", "rsend", "Rsend", "sendrecv", "Sendrecv"}
_SOURCE = {"recv": 1, "Recv": 1, "probe": 0, "Probe": 0, "mprobe": 0, "Mprobe": 0}
_COLLECTIVES = (
    {"barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan"}
    | {"Barrier", "Bcast", "Gather", "Scatter", "Allgather", "Alltoall", "Reduce", "Allreduce", "Scan", "Exscan"}
    | {"Gatherv", "Scatterv", "Allgatherv", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block"}
    | {"Split", "Split_type", "Dup", "Create", "Free", "Disconnect"}
)
_METHODS = _COLLECTIVES | _DESTINATION | set(_SOURCE)
_TAGS = dict.fromkeys(_DESTINATION - {"sendrecv", "Sendrecv"}, 2) | {name: at + 1 for name, at in _SOURCE.items()}
"""Position of the tag in the arguments, by method. `sendrecv` is missing because it has two tags."""

_ROOTS = {"bcast": 1, "Bcast": 1, "gather": 1, "scatter": 1, "reduce": 2} | {
    "Gather": 2,
    "Gatherv": 2,
    "Scatter": 2,
    "Scatterv": 2,
    "Reduce": 3,
}
"""Position of the root in the arguments, by collective."""

_WAITS = {"wait", "Wait", "waitall", "Waitall", "waitany", "Waitany", "waitsome", "Waitsome"}


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """A communicator, as far as it may be queried; ``ranks`` are its members as ranks of MPI_COMM_WORLD."""

    name: str = ""
    ranks: tuple[int, ...] = ()


def mpi_seen() -> list[SourceSeen | GroupSeen | CollectiveSeen]:
    """Return the MPI calls of all threads, with their communicators; empty if the program does not use mpi4py."""
    mpi = sys.modules.get(MODULE)
    # Two threads may use the same communicator, which is returned once.
    return list(dict.fromkeys(_seen(mpi))) if mpi is not None else []


def _seen(mpi: ModuleType) -> Iterator[SourceSeen | GroupSeen | CollectiveSeen]:
    may_ask = may_be_asked(mpi)
    limitation = "mpi4py counts no calls, so it is not known which of several equal calls a rank is in"
    if not may_ask:
        limitation = (
            f"{limitation}; without THREAD_MULTIPLE in MPI, communicators can't be queried while a thread is in a call"
        )
    package = sys.modules.get("mpi4py")
    version = vars(package).get("__version__") if package is not None else None
    yield clamp(SourceSeen, library=LIBRARY, version=version if type(version) is str else "", limitation=limitation)
    for frame in list(all_frames().values()):
        yield from thread_seen(mpi, frame, may_ask=may_ask)


def mpi_wait(innermost: FrameType, called: Expression, place: Place | None) -> ActivityInfo | None:
    """Return the activity of a thread in mpi4py, whose waits keep a CPU busy; None if it is not in mpi4py."""
    mpi = sys.modules.get(MODULE)
    if mpi is None:
        return None
    kinds = (vars(mpi).get(name) for name in ("Comm", "Request"))
    is_of_mpi = called.owner is mpi or class_of(called.owner)[0] == MODULE
    is_derived = any(isinstance(kind, type) and is_a(called.owner, kind) for kind in kinds)
    if not (is_of_mpi or is_derived or _call_of(mpi, innermost) is not None):
        return None
    # A request does not show whether it belongs to a send, a receive or a collective.
    what = Activity.MPI_REQUEST if called.name in _WAITS else Activity.MPI
    return clamp(ActivityInfo, what=what, name=called.text or called.name, place=place)


def thread_seen(mpi: ModuleType, innermost: FrameType, *, may_ask: bool) -> Iterator[GroupSeen | CollectiveSeen]:
    """Yield the communicator and the MPI call of a thread with this innermost frame; nothing if there is no call."""
    call = _call_of(mpi, innermost)
    if call is not None and call.called.name not in _WAITS:
        yield from _call_seen(mpi, call, may_ask)


def may_be_asked(mpi: ModuleType) -> bool:
    """Return True if this thread may query communicators while another thread is in MPI."""
    try:
        # MPI allows these three calls at any time, in any thread.
        return bool(mpi.Is_initialized() and not mpi.Is_finalized() and mpi.Query_thread() == mpi.THREAD_MULTIPLE)
    except Exception:
        return False


# ------------------------------------------------------------------------------------------------------------- calls


def _call_of(mpi: ModuleType, innermost: FrameType) -> CallSite | None:
    call = call_site(innermost, reads=not is_traced([innermost]))
    if call is None or call.called.name not in _METHODS | _WAITS:
        return None
    kinds = tuple(kind for kind in (vars(mpi).get("Comm"), vars(mpi).get("Request")) if isinstance(kind, type))
    if issubclass(type(call.called.owner), kinds):
        return call
    # If the object is unknown, the method's name decides: many classes have a `send` or `wait`, but hardly any class
    # other than MPI's has an `Allreduce`.
    is_telling = call.called.name in _COLLECTIVES - {"Free", "Create"} and call.called.name[0].isupper()
    return call if call.called.owner is UNKNOWN and is_telling else None


def _call_seen(mpi: ModuleType, call: CallSite, may_ask: bool) -> Iterator[GroupSeen | CollectiveSeen]:
    communicator = _communicator(mpi, call.called.owner, may_ask)
    ranks = communicator.ranks
    # Open MPI gives the same name to all communicators that one split creates, so the ranks are added to the name.
    name = f"{communicator.name} {format_ranks(ranks)}".strip()
    if name:
        yield clamp(
            GroupSeen,
            library=LIBRARY,
            name=name,
            title=communicator.name or "a communicator",
            members=format_ranks(ranks),
            size=len(ranks) or None,
            backend="mpi",
        )
    yield clamp(
        CollectiveSeen,
        group=name,
        name=call.called.name,
        state=CollectiveState.ENQUEUED,
        peer=_peer(call, ranks),
        is_receive=call.called.name in _SOURCE,
        tag=_tag(call),
        root=_root(call, ranks),
    )


def _tag(call: CallSite) -> int | None:
    """Return the tag, -1 for MPI's ANY_TAG, or None if the tag can't be read."""
    if call.called.name not in _TAGS:
        return None
    tag = call.argument(_TAGS[call.called.name], "tag", 0 if call.called.name in _DESTINATION else -1)
    # ANY_TAG is a negative number that differs between MPI libraries.
    return max(tag, -1) if type(tag) is int else None


def _root(call: CallSite, ranks: tuple[int, ...]) -> int | None:
    """Return the root as a rank of MPI_COMM_WORLD, or None if there is none or it can't be read."""
    if call.called.name not in _ROOTS:
        return None
    root = call.argument(_ROOTS[call.called.name], "root", 0)
    return ranks[root] if type(root) is int and 0 <= root < len(ranks) else None


def _peer(call: CallSite, ranks: tuple[int, ...]) -> int | None:
    """Return the peer as a rank of MPI_COMM_WORLD, or None for MPI's ANY_SOURCE and for a peer that can't be read."""
    if call.called.name in _DESTINATION:
        peer = call.argument(1, "dest")
    elif call.called.name in _SOURCE:
        peer = call.argument(_SOURCE[call.called.name], "source")
    else:
        return None
    is_rank = type(peer) is int and 0 <= peer < len(ranks)
    return ranks[peer] if is_rank else None


# ----------------------------------------------------------------------------------------------------- communicators


def _communicator(mpi: ModuleType, target: Any, may_ask: bool) -> Communicator:
    kind = vars(mpi).get("Comm")
    if not isinstance(kind, type) or not issubclass(type(target), kind):
        return Communicator()
    try:
        # A comparison and a test for null only read the handle. Methods of mpi4py's own class are used, because the
        # program's subclass may override them.
        if not may_ask or not kind.__bool__(target):  # type: ignore[attr-defined]
            return Communicator(name="MPI_COMM_WORLD" if _is_world(mpi, kind, target) else "")
        return Communicator(name=kind.Get_name(target), ranks=_ranks(mpi, kind, target))  # type: ignore[attr-defined]
    except Exception:
        return Communicator()


def _is_world(mpi: ModuleType, kind: Any, communicator: Any) -> bool:
    return kind.__eq__(communicator, mpi.COMM_WORLD) is True


def _ranks(mpi: ModuleType, kind: Any, communicator: Any) -> tuple[int, ...]:
    """Return the members as ranks of MPI_COMM_WORLD. This involves no other process."""
    own, world = kind.Get_group(communicator), kind.Get_group(mpi.COMM_WORLD)
    try:
        numbers = list(range(own.Get_size()))
        ranks = mpi.Group.Translate_ranks(own, numbers, world)
        return tuple(int(rank) for rank in ranks if rank >= 0)
    finally:
        own.Free()
        world.Free()


# --------------------------------------------------------------------------------------------------------------- JAX

JAX = "jax"

_STATE_MODULE = "jax._src.distributed"

_JAX_WAITS = frozenset(
    {
        *("execute_sharded", "block_until_ready", "batched_block_until_ready", "connect", "wait_at_barrier"),
        *("_single_device_array_to_np_array_did_copy", "blocking_key_value_get", "blocking_key_value_get_bytes"),
    }
)
"""C++ methods that wait for devices or other processes; compilation is not among them."""


def jax_seen() -> list[SourceSeen | GroupSeen | CollectiveSeen]:
    """Return the computations that threads wait for; empty if JAX has no other process."""
    module: Any = sys.modules.get(_STATE_MODULE)
    state = module.global_state if module is not None else None
    if state is None or state.client is None or state.num_processes < 2:
        return []
    limitation, count = (
        "JAX counts no computations, so it is not known which of several equal ones a rank is in",
        int(state.num_processes),
    )
    calls = dict.fromkeys(called for frame in list(all_frames().values()) if (called := awaited(frame)))
    return [
        clamp(SourceSeen, library=JAX, limitation=limitation),
        clamp(GroupSeen, library=JAX, name=JAX, title="JAX", members=f"0-{count - 1}", size=count),
        *(clamp(CollectiveSeen, group=JAX, name=name, state=CollectiveState.STARTED) for name in calls),
    ]


def awaited(innermost: FrameType) -> str:
    """Return the call in the user's code that waits for a computation of JAX; empty if there is none."""
    site = call_site(innermost, reads=not is_traced([innermost])) if JAX in sys.modules else None
    if site is None or not _waits_in_jax(site, innermost):
        return ""
    own = next((one for one in outward(innermost) if is_users_file(one.f_code.co_filename)), innermost)
    outer = site if own is innermost else call_site(own, reads=False)
    return printable((outer and (outer.called.text or outer.called.name)) or own.f_code.co_name)


def jax_wait(innermost: FrameType, place: Place | None) -> ActivityInfo | None:
    """Return the wait of a thread in JAX, or None if it is not in JAX."""
    name = awaited(innermost)
    return clamp(ActivityInfo, what=Activity.JAX, name=name, place=place) if name else None


def _waits_in_jax(site: CallSite, frame: FrameType) -> bool:
    is_jax = module_of(frame).partition(".")[0] == JAX or class_of(site.called.owner)[0].startswith("jaxlib")
    return class_of(site.called.value)[1] == "PjitFunction" or (is_jax and site.called.name in _JAX_WAITS)
