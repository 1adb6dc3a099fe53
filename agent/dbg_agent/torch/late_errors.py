"""What to add to an error of a GPU: the device reports it at a later call, so its traceback is of the wrong line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_COMPUTE = re.compile(
    r"CUDA error|CUDA driver error|cudaError|CUBLAS_STATUS|CUDNN_STATUS|device-side assert|HIP error|hipError"
)
_EXCHANGE = re.compile(r"NCCL [Ee]rror|nccl[A-Z]\w*Error|RCCL [Ee]rror|HCCL")

_BLOCKING = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL")


def late_error_note(text: str, environ: Mapping[str, str]) -> str:
    """Return sentences about an error with this text, empty if it is not one that a GPU reports late.

    It is for the thread that has crashed; it never raises.
    """
    note = "the error may come from an earlier call"
    if _COMPUTE.search(text) is None:
        return note if _EXCHANGE.search(text) is not None else ""
    if any(environ.get(name, "0") not in ("", "0") for name in _BLOCKING):
        return ""
    variable = "HIP_LAUNCH_BLOCKING" if "HIP" in text else "CUDA_LAUNCH_BLOCKING"
    return f"{note}; run with {variable}=1 to see the line that launched it"
