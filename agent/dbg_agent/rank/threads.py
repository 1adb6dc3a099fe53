"""The stacks of all Python threads of this process but our own; from any thread, and without a lock."""

from __future__ import annotations

from dbg_agent.stop.program_threads import program_threads
from dbg_agent.stop.stacks import bounded_stack, bytes_of, whole_stack
from dbg_wire.limits import MAX_THREAD_FRAMES, MAX_THREADS_BYTES
from dbg_wire.records.ranks import Place, ThreadStack
from dbg_wire.records.record import fitted

MAX_NAME = 200
"""Characters of a thread's name."""


def thread_stacks(halted: int | None, stack: tuple[Place, ...]) -> tuple[ThreadStack, ...]:
    """Return the threads, the main one first; ``stack`` is that of the thread ``halted``, if one stands in a stop.

    If all are more than MAX_THREADS_BYTES the middle of the deepest ones is left out, as a place of each tells.
    """
    threads = program_threads(halted)
    whole = [stack if thread.ident == halted else whole_stack(thread.frame) for thread in threads]
    most = MAX_THREAD_FRAMES
    stacks = [bounded_stack(one, most) for one in whole]
    while most > 1 and sum(map(bytes_of, stacks)) > MAX_THREADS_BYTES:
        most = most * 3 // 4
        stacks = [bounded_stack(one, most) for one in whole]
    return tuple(
        fitted(ThreadStack, name=thread.name[:MAX_NAME], frames=frames, halted=thread.ident == halted)
        for thread, frames in zip(threads, stacks, strict=True)
    )
