"""The computations of JAX for which threads of this process wait, by the code of their callers: JAX records none.

Where JAX has several processes, a computation on all devices ends once each process has called it.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from dbg_agent.evidence.stacks import module_of
from dbg_agent.frames.expressions import CallSite, call_site
from dbg_agent.frames.stacks import all_frames, is_users_file, outward
from dbg_agent.frames.variables import class_of, is_traced
from dbg_wire.errors import printable
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState, Doing, GroupSeen, SourceSeen, What
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted

LIBRARY = "jax"

_STATE_MODULE = "jax._src.distributed"

_WAITS = frozenset(
    {
        *("execute_sharded", "block_until_ready", "batched_block_until_ready", "connect", "wait_at_barrier"),
        *("_single_device_array_to_np_array_did_copy", "blocking_key_value_get", "blocking_key_value_get_bytes"),
    }
)
"""Methods written in C++ that wait for devices or for other processes; a compilation is not among them."""


def jax_seen() -> list[SourceSeen | GroupSeen | CollectiveSeen]:
    """Return the computations that threads wait for; empty if JAX connects no other process to this one."""
    module: Any = sys.modules.get(_STATE_MODULE)
    state = module.global_state if module is not None else None
    if state is None or state.client is None or state.num_processes < 2:
        return []
    lack, count = (
        "JAX counts no computations, so which of equal ones a rank is in is not known",
        int(state.num_processes),
    )
    calls = dict.fromkeys(called for frame in list(all_frames().values()) if (called := awaited(frame)))
    return [
        fitted(SourceSeen, library=LIBRARY, lack=lack),
        fitted(GroupSeen, library=LIBRARY, name=LIBRARY, title="JAX", members=f"0-{count - 1}", size=count),
        *(fitted(CollectiveSeen, group=LIBRARY, name=name, state=CollectiveState.STARTED) for name in calls),
    ]


def awaited(innermost: FrameType) -> str:
    """Return the call in the user's code that waits for a computation of JAX; empty for another call."""
    site = call_site(innermost, reads=not is_traced([innermost])) if LIBRARY in sys.modules else None
    if site is None or not _is_waiting(site, innermost):
        return ""
    own = next((one for one in outward(innermost) if is_users_file(one.f_code.co_filename)), innermost)
    outer = site if own is innermost else call_site(own, reads=False)
    return printable((outer and (outer.called.text or outer.called.name)) or own.f_code.co_name)


def jax_wait(innermost: FrameType, place: Place | None) -> Doing | None:
    """Return what a thread waits for in JAX; None for another call."""
    name = awaited(innermost)
    return fitted(Doing, what=What.JAX, name=name, place=place) if name else None


def _is_waiting(site: CallSite, frame: FrameType) -> bool:
    is_jax = module_of(frame).partition(".")[0] == LIBRARY or class_of(site.called.owner)[0].startswith("jaxlib")
    return class_of(site.called.value)[1] == "PjitFunction" or (is_jax and site.called.name in _WAITS)
