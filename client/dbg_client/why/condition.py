"""What one rank does by itself, whatever others wait for. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbg_client.views.ages import show_age
from dbg_client.views.tree import file_line, own_frames
from dbg_client.why.process_groups import RankEvidence
from dbg_client.why.verdict import VerdictKind
from dbg_client.why.wait_text import MAX_NAME, MAX_TEXT, process_text, wait_text
from dbg_wire.errors import printable
from dbg_wire.libraries import collective_of
from dbg_wire.records.evidence import Doing, ThreadWait, WaitKind, What
from dbg_wire.records.ranks import (
    CRASH,
    DIED,
    IN_FINALIZE,
    WITHOUT_TRACEBACK,
    Place,
    RankInfo,
    RankState,
    describe_exit,
)

MAX_THREADS = 4
"""Threads of a deadlock that one sentence names."""

_WAITS: Mapping[WaitKind, VerdictKind] = {
    **dict.fromkeys(
        (WaitKind.LOCK, WaitKind.DATA, WaitKind.FILE, WaitKind.SOCKET, WaitKind.CHILD, WaitKind.SLEEP, WaitKind.LOOP),
        VerdictKind.WAITING,
    ),
    WaitKind.NATIVE: VerdictKind.STUCK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is wrong with a rank, if anything: ``text`` follows ``rank 3``, as in ``is suspended (SIGSTOP)``.

    ``age`` is for how many seconds it has been so. ``is_still`` says that the rank can't go on by itself, or has been
    at one instruction for ``age``. ``is_sure`` says that the kernel, the broker or the interpreter tells it.
    """

    kind: VerdictKind | None
    text: str = ""
    age: float | None = None
    is_still: bool = False
    is_sure: bool = True
    does: Doing | None = None
    """What the text is made of, if a thread of the rank has told it."""
    threads: tuple[ThreadWait, ...] = ()
    """Threads that wait for each other."""
    note: str = ""
    """What the kernel tells of the process, such as that a tracer has stopped it."""
    ended: tuple[str, ...] = ()
    """Threads that an exception has ended, as in ``thread pump ended by OSError (data.py:7)``."""
    handles: str = ""
    """The exception that the main thread handles, as in ``handles OSError: disk full (save.py:9)``."""
    is_age_told: bool = False
    """Whether the text tells the age itself."""

    @property
    def is_loop(self) -> bool:
        """Return whether the rank tries something again and again: of such it is told at each look, wherever it is."""
        return self.does is not None and self.does.what is What.LOOPS

    @property
    def is_stop(self) -> bool:
        """Return whether a debugger has the rank."""
        return self.does is not None and self.does.what in (What.STOP, What.PDB)


def condition_of(one: RankEvidence, now: float, *, has_mpi: bool = False) -> Condition:
    """Return the condition of a rank; ``now`` is wall-clock seconds, as the broker tells them.

    In a run that ``has_mpi`` who computes may wait instead: mpi4py keeps Python's lock in some collectives, and spins.
    """
    process = one.evidence.process if one.evidence is not None else None
    note = process_text(process) if process is not None else ""
    waits = one.evidence.waits if one.evidence is not None else ()
    ended = tuple(
        f"thread {printable(wait.thread, MAX_NAME)} {wait_text(wait.does)}"
        for wait in waits
        if wait.kind is WaitKind.ENDED
    )
    handles = next((wait_text(wait.does) for wait in waits if wait.kind is WaitKind.HANDLED), "")
    return replace(_condition(one, now, has_mpi), note=note, ended=ended[-MAX_THREADS:], handles=handles)


def deadlocked(condition: Condition, threads: tuple[ThreadWait, ...], text: str, *, is_sure: bool) -> Condition:
    """Return the condition of a rank whose threads wait for each other, or that waits for itself."""
    return replace(
        condition,
        kind=VerdictKind.DEADLOCK,
        text=text or f"has a deadlock: {circle_of(threads)}",
        does=None,
        is_still=True,
        is_sure=is_sure,
        threads=threads,
        is_age_told=not text,
    )


def circle_of(threads: tuple[ThreadWait, ...]) -> str:
    """Return ``threads MainThread and pump wait for each other``."""
    if len(threads) == 1:
        return f"thread {printable(threads[0].thread, MAX_NAME)} {wait_text(threads[0].does)}"
    names = [printable(one.thread, MAX_NAME) for one in threads[:MAX_THREADS]]
    more = " and others" if len(threads) > MAX_THREADS else ""
    return f"threads {', '.join(names[:-1])} and {names[-1]}{more} wait for each other"


def main_wait(one: RankEvidence) -> ThreadWait | None:
    """Return what a rank's main thread is in; None if it has not told."""
    waits = one.evidence.waits if one.evidence is not None else ()
    return next((wait for wait in waits if wait.is_main), None)


def _condition(one: RankEvidence, now: float, has_mpi: bool) -> Condition:
    rank = one.rank
    since = max(0.0, now - rank.since) if rank.since else None
    if rank.state is RankState.EXITED:
        return Condition(
            kind=VerdictKind.ENDED if _has_finished(rank) else VerdictKind.DEAD,
            text=_aborted(one, since) or f"{_end(rank, since)}{_last_seen(one)}",
            age=since,
            is_still=True,
            is_age_told=True,
        )
    if rank.state is RankState.LOST:
        ago = f" since {show_age(since)}" if since is not None else ""
        text = f"is lost: its connection is gone{ago}, and its process may live"
        return Condition(kind=VerdictKind.DEAD, text=text, age=since, is_still=True, is_age_told=True)
    if rank.state is RankState.STOPPED and rank.reason == CRASH:
        error = f" ({printable(rank.halt.detail, MAX_TEXT)})" if rank.halt.detail else ""
        where = f" at {file_line(rank.where)}" if rank.where is not None else ""
        text = f"has crashed{error}{where} and is kept"
        return Condition(kind=VerdictKind.DEAD, text=text, age=since, is_still=True)
    if rank.state is RankState.STOPPED:
        text = f"stands in the debugger{_at(rank.where)}"
        return Condition(kind=VerdictKind.WAITING, text=text, age=since, is_still=True)
    if rank.state is RankState.HELD:
        text = f"is held{_at(rank.where)} for others that stand in the debugger"
        return Condition(kind=None, text=text, age=since, is_still=True)
    return _of_live(one, since, has_mpi)


def _of_live(one: RankEvidence, since: float | None, has_mpi: bool) -> Condition:
    process = one.evidence.process if one.evidence is not None else None
    text = printable(one.answer.text, MAX_TEXT).partition(";")[0]
    age = one.answer.age
    if one.is_suspended:
        said = text if text.startswith("suspended") else "suspended"
        return Condition(kind=VerdictKind.SUSPENDED, text=f"is {said}", age=age, is_still=True, is_age_told=True)
    if text.startswith("stuck"):
        # Who computes lets no other thread run Python code either, and may get on all the same.
        computes = process is not None and process.state == "R"
        text = text.replace("stuck", "computes", 1) if computes else f"is {text}"
        may_wait = computes and has_mpi
        text = text.replace(" in C code", " in C code, or waits in MPI,", 1) if may_wait else text
        said = f"{text}{_caller(one.answer.frames)}"
        return Condition(
            kind=VerdictKind.STUCK, text=said, age=age, is_still=True, is_sure=not may_wait, is_age_told=True
        )
    if one.rank.state is RankState.UNRESPONSIVE:
        ago = f" for {show_age(since)}" if since is not None else ""
        text = f"has been silent{ago}: its interpreter is stuck in C code, or its process is suspended"
        return Condition(kind=VerdictKind.STUCK, text=text, age=since, is_still=True, is_sure=False, is_age_told=True)
    return _of_main_thread(one)


def _caller(frames: Sequence[Place]) -> str:
    """Return `` (decode, data.py:17)``, the function of the user that has called C code; empty if it isn't known."""
    own = own_frames(frames)
    return f" ({printable(own[-1].function, MAX_NAME)}, {file_line(own[-1])})" if own else ""


def _of_main_thread(one: RankEvidence) -> Condition:
    age, main = one.answer.age, main_wait(one)
    if main is None or collective_of(one.answer.frames):
        return Condition(kind=None, age=age)
    kind = _WAITS.get(main.kind)
    if kind is None:
        # Not all calls of a library are known as collectives, and so are told by the thread alone.
        text = wait_text(main.does) if main.kind in (WaitKind.COLLECTIVE, WaitKind.DEBUGGER) else ""
        return Condition(kind=None, text=text, age=age, does=main.does)
    return Condition(kind=kind, text=wait_text(main.does), age=age, is_sure=main.is_sure, does=main.does)


def _has_finished(rank: RankInfo) -> bool:
    return rank.exit == 0 and rank.detail not in (IN_FINALIZE, WITHOUT_TRACEBACK)


def _end(rank: RankInfo, since: float | None) -> str:
    if rank.detail == IN_FINALIZE:
        ended = f" {show_age(since)} ago" if since is not None else ""
        return f"ended its program{ended} and is in MPI_Finalize, which waits for all ranks"
    if rank.detail == WITHOUT_TRACEBACK:
        ago = f" {show_age(since)} ago" if since is not None else ""
        return f"ended by itself{ago} with status {rank.exit}, {WITHOUT_TRACEBACK}"
    how = describe_exit(rank)
    if how == DIED and not rank.detail:
        # No goodbye, and no signal that its guard has seen.
        return f"ended without a word{f' {show_age(since)} ago' if since is not None else ''}: os._exit, or a kill"
    verb = "" if how == "died" else "was " if how.startswith("killed") else "has "
    comma = "," if how[-1:].isdecimal() else ""
    ago = f"{comma} {show_age(since)} ago" if since is not None else ""
    # What its last stop was about is no news of its end.
    detail = rank.end.detail
    told, _, more = detail.partition("; ")
    if told and told in how:
        return f"{verb}{how}{ago}{f'; {printable(more, MAX_TEXT)}' if more else ''}"
    detail = f" ({printable(detail, MAX_TEXT)})" if detail else ""
    return f"{verb}{how}{detail}{ago}"


def _aborted(one: RankEvidence, since: float | None) -> str:
    """Say that the library of a collective has ended its process, as gloo does for data of another size; or nothing."""
    name = collective_of(one.answer.frames)
    if one.rank.exit != -signal.SIGABRT or not name:
        return ""
    own = own_frames(one.answer.frames)
    place = f" ({printable(own[-1].function, MAX_NAME)} {file_line(own[-1])})" if own else ""
    ago = f" {show_age(since)} ago" if since is not None else ""
    return f"was ended by its library (SIGABRT) in {name}{place}{ago}; see its output"


def _last_seen(one: RankEvidence) -> str:
    """Return where a rank was before it ended without a goodbye, which would tell more; empty if it isn't known."""
    own = own_frames(one.answer.frames)
    if not own or one.rank.reason != DIED:
        return ""
    # Of a signal more is told, and there is less room.
    function = "" if (one.rank.exit or 0) < 0 else f" {printable(own[-1].function, MAX_NAME)}"
    return f"; last seen in {file_line(own[-1])}{function}"


def _at(place: Place | None) -> str:
    return f" ({file_line(place)})" if place is not None else ""
