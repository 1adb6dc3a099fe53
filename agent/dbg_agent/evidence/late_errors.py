"""What to add to an error of a GPU: the device reports it at a later call, so its traceback is of the wrong line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dbg_wire.records.evidence import CollectiveSeen, GroupSeen

_COMPUTE = re.compile(
    r"CUDA error|CUDA driver error|cudaError|CUBLAS_STATUS|CUDNN_STATUS|device-side assert|HIP error|hipError"
)
_EXCHANGE = re.compile(r"NCCL [Ee]rror|nccl[A-Z]\w*Error|RCCL [Ee]rror|HCCL")

_BLOCKING = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL")


def late_error_note(text: str, environ: Mapping[str, str]) -> str:
    """Return sentences about an error with this text, empty if it is not one that a GPU reports late.

    It is for the thread that has crashed; it never raises.
    """
    is_compute = _COMPUTE.search(text) is not None
    if not is_compute and _EXCHANGE.search(text) is None:
        return ""
    is_blocking = any(environ.get(name, "0") not in ("", "0") for name in _BLOCKING)
    notes = []
    if not (is_compute and is_blocking):
        last = _last_collective()
        notes.append(f"the error may come from an earlier call{f': last collective {last}' if last else ''}")
    if is_compute and not is_blocking:
        variable = "HIP_LAUNCH_BLOCKING" if "HIP" in text else "CUDA_LAUNCH_BLOCKING"
        notes.append(f"run with {variable}=1 to see the line that launched it")
    return "; ".join(notes)


def _last_collective() -> str:
    """Return ``all_reduce #3171 of dp_0``, the collective that was called last; empty if none is known."""
    try:
        from dbg_agent.evidence.gather import collectives_seen

        seen = collectives_seen()
    except Exception:
        # The library that records them may be what has failed.
        return ""
    titles = {one.name: one.title for one in seen if isinstance(one, GroupSeen)}
    called = [one for one in seen if isinstance(one, CollectiveSeen)]
    if not called:
        return ""
    last = min(called, key=lambda one: (one.age is None, one.age or 0.0, -(one.sequence or 0)))
    number = f" #{last.sequence}" if last.sequence is not None else ""
    return f"{last.name}{number} of {titles.get(last.group) or last.group}"
