"""What each thread of the program waits for."""

from __future__ import annotations

from dbg_wire.evidence import ThreadWait


def threads_seen(halted: int | None) -> list[ThreadWait]:
    """Return what each thread is in, the main thread first; ``halted`` is the thread that stands in a stop."""
    return []
