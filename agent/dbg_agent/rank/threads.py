"""The stacks of all Python threads of this process but our own; from any thread, and without a lock."""

from __future__ import annotations

from dbg_wire.limits import MAX_THREAD_FRAMES
from dbg_wire.ranks import Place, ThreadStack
from dbg_wire.records import fitted

from ..stop.program_threads import program_threads
from ..stop.stacks import bounded_stack, stack_of


def thread_stacks(halted: int | None, stack: tuple[Place, ...]) -> tuple[ThreadStack, ...]:
    """Return the threads, the main one first; ``stack`` is that of the thread ``halted``, if one stands in a stop."""
    return tuple(
        fitted(
            ThreadStack,
            name=thread.name,
            frames=bounded_stack(stack, MAX_THREAD_FRAMES)
            if thread.ident == halted
            else stack_of(thread.frame, MAX_THREAD_FRAMES),
            halted=thread.ident == halted,
        )
        for thread in program_threads(halted)
    )
