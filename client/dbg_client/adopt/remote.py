"""The way that Python itself offers from 3.14 on: it runs a file in another process of the same version."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbg_client.adopt.payload import Answer

SECONDS = 2.0
"""Seconds for the main thread to come to the file: it does so between two instructions, or is in C code."""


def can_remote_exec(version: tuple[int, int] | None) -> bool:
    """Tell whether this Python can have one of that version run a file."""
    return hasattr(sys, "remote_exec") and version == sys.version_info[:2]


def run_remotely(pid: int, folder: str, code: str, answered: Callable[[float], Answer | None]) -> Answer | None:
    """Have the main thread of a process run the code; return its answer, None where it is not allowed or not run.

    The file stays in ``folder``: a main thread that comes to it later would complain of a file that is gone.
    """
    script = Path(folder) / "adopt.py"
    script.write_text(code, encoding="ascii")
    remote_exec: Any = getattr(sys, "remote_exec")  # noqa: B009 - unknown to the types of older releases
    try:
        remote_exec(pid, str(script))
    except (OSError, RuntimeError):
        script.unlink()
        return None
    answer = answered(SECONDS)
    if answer is not None:
        script.unlink()
    return answer
