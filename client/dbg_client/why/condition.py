"""Condition of one rank: facts about the rank itself, regardless of the ranks that wait for it. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.verdict import VerdictKind
from dbg_wire.libraries import collective_of
from dbg_wire.messages import Finding as GuardFinding
from dbg_wire.records.evidence import Activity, ActivityInfo, ThreadWait, WaitKind
from dbg_wire.records.ranks import CRASH, EndKind, RankState


class State(enum.Enum):
    """State of a rank."""

    EXITED = enum.auto()
    LOST = enum.auto()
    """The rank is disconnected, and its process may be alive."""
    CRASHED = enum.auto()
    """An exception has ended the program, and the process is kept."""
    STOPPED = enum.auto()
    HELD = enum.auto()
    """The rank is held while other ranks are in the debugger."""
    SUSPENDED = enum.auto()
    STUCK = enum.auto()
    """C code prevents all threads from running Python code."""
    COMPUTES = enum.auto()
    """Like STUCK, but the process uses a processor."""
    UNHEARD = enum.auto()
    """The rank is unresponsive: it is connected, and its interpreter does not run."""
    WAITS = enum.auto()
    """The main thread waits, or is in C code or in a library call."""
    DEADLOCK = enum.auto()
    """Threads of the rank wait for each other."""
    FOR_ITSELF = enum.auto()
    """The main thread waits for itself, or for a process that waits for the rank."""
    RUNS = enum.auto()
    """Nothing is known that blocks the rank."""


AGE_TOLD = frozenset(
    {State.EXITED, State.LOST, State.SUSPENDED, State.STUCK, State.COMPUTES, State.UNHEARD} | {State.DEADLOCK}
)
"""States whose text contains the age, or does not need it. The sentence adds no age to them."""

_WAITS: Mapping[WaitKind, VerdictKind] = {
    **dict.fromkeys(
        (WaitKind.LOCK, WaitKind.DATA, WaitKind.FILE, WaitKind.SOCKET, WaitKind.CHILD, WaitKind.SLEEP, WaitKind.LOOP),
        VerdictKind.WAITING,
    ),
    WaitKind.NATIVE: VerdictKind.STUCK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCondition:
    """State of a rank, and the ``kind`` of its verdict if something is wrong.

    ``age`` is the number of seconds in this state. ``is_still`` means that the rank can't continue by itself, or has
    been at one instruction for ``age``. ``is_sure`` means that the kernel, the broker or the interpreter reports the
    state. ``does`` is the activity of the main thread. ``threads`` are threads that wait for each other or for
    themselves.
    """

    state: State
    kind: VerdictKind | None
    age: float | None = None
    is_still: bool = False
    is_sure: bool = True
    does: ActivityInfo | None = None
    threads: tuple[ThreadWait, ...] = ()

    @property
    def is_loop(self) -> bool:
        """Whether the rank repeats something in a loop. Such a rank reports the loop, even if its stack changes."""
        return self.does is not None and self.does.what is Activity.LOOPS

    @property
    def is_stopped(self) -> bool:
        """Whether the rank is stopped in our debugger or in pdb."""
        in_pdb = self.does is not None and self.does.what is Activity.PDB
        return self.state in (State.STOPPED, State.CRASHED) or (in_pdb and self.state is State.WAITS)


def condition_of(one: RankEvidence, now: float) -> RankCondition:
    """Return the condition of a rank; ``now`` is wall-clock seconds by the broker's clock."""
    rank = one.rank
    since = max(0.0, now - rank.since) if rank.since else None
    if rank.state is RankState.EXITED:
        kind = VerdictKind.ENDED if has_finished(one) else VerdictKind.DEAD
        return RankCondition(state=State.EXITED, kind=kind, age=since, is_still=True)
    if rank.state is RankState.LOST:
        return RankCondition(state=State.LOST, kind=VerdictKind.DEAD, age=since, is_still=True)
    if rank.state is RankState.STOPPED and rank.reason == CRASH:
        return RankCondition(state=State.CRASHED, kind=VerdictKind.DEAD, age=since, is_still=True)
    if rank.state is RankState.STOPPED:
        return RankCondition(state=State.STOPPED, kind=VerdictKind.WAITING, age=since, is_still=True)
    if rank.state is RankState.HELD:
        return RankCondition(state=State.HELD, kind=None, age=since, is_still=True)
    return _of_live(one, since)


def deadlocked(
    condition: RankCondition, threads: tuple[ThreadWait, ...], *, by_threads: bool, is_sure: bool
) -> RankCondition:
    """Return the condition of a rank whose threads wait for each other, or that waits for itself."""
    state = State.DEADLOCK if by_threads else State.FOR_ITSELF
    kind = VerdictKind.DEADLOCK
    return replace(condition, state=state, kind=kind, is_still=True, is_sure=is_sure, threads=threads)


def main_wait(one: RankEvidence) -> ThreadWait | None:
    """Return the wait of a rank's main thread; None if it was not reported."""
    waits = one.evidence.waits if one.evidence is not None else ()
    return next((wait for wait in waits if wait.is_main), None)


def waits_of(one: RankEvidence, kind: WaitKind) -> list[ThreadWait]:
    """Return the waits of a rank's threads, filtered by kind."""
    return [wait for wait in one.evidence.waits if wait.kind is kind] if one.evidence is not None else []


def _of_live(one: RankEvidence, since: float | None) -> RankCondition:
    process = one.evidence.process if one.evidence is not None else None
    age = one.answer.age
    if one.is_suspended:
        return RankCondition(state=State.SUSPENDED, kind=VerdictKind.SUSPENDED, age=age, is_still=True)
    if one.answer.found is GuardFinding.STUCK:
        # C code that computes blocks the Python threads too, but may make progress, as in a busy-wait of mpi4py.
        computes = process is not None and process.state == "R"
        state = State.COMPUTES if computes else State.STUCK
        return RankCondition(state=state, kind=VerdictKind.STUCK, age=age, is_still=True, is_sure=not computes)
    if one.rank.state is RankState.UNRESPONSIVE:
        return RankCondition(state=State.UNHEARD, kind=VerdictKind.STUCK, age=since, is_still=True, is_sure=False)
    return _of_main_thread(one)


def _of_main_thread(one: RankEvidence) -> RankCondition:
    age, main = one.answer.age, main_wait(one)
    if main is None or collective_of(one.answer.frames):
        return RankCondition(state=State.RUNS, kind=None, age=age)
    kind = _WAITS.get(main.kind)
    if kind is None and main.kind is not WaitKind.COLLECTIVE:
        return RankCondition(state=State.RUNS, kind=None, age=age)
    # `collective_of` does not know all library calls. For an unknown call, only the wait of the thread is reported.
    is_sure = main.is_sure or kind is None
    return RankCondition(state=State.WAITS, kind=kind, age=age, is_sure=is_sure, does=main.does)


def has_finished(one: RankEvidence) -> bool:
    """Return True if the rank's program has ended with status 0 and a goodbye message."""
    return one.rank.exit == 0 and one.rank.end.kind is EndKind.GOODBYE
