"""Activity of each thread of the program, from its frames, its locks, and the kernel."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from dbg_agent.evidence.library_waits import Wait, from_workers, library_wait
from dbg_agent.evidence.locks import Holders, owner_of, wanted_lock
from dbg_agent.evidence.loops import polled_file, retried
from dbg_agent.evidence.stacks import SeenThread, module_of, places_of, seen_threads, short_place
from dbg_agent.evidence.unrecorded import jax_wait, mpi_wait
from dbg_agent.frames.ended import ended_threads, handled_exception
from dbg_agent.frames.expressions import CallSite, call_site, is_calling
from dbg_agent.frames.stacks import all_frames, is_users_file
from dbg_agent.frames.variables import UNKNOWN, class_of, local
from dbg_agent.host.descriptors import does, doing, waits_in
from dbg_agent.host.process import system_call
from dbg_wire.errors import printable
from dbg_wire.libraries import collective_of
from dbg_wire.records.evidence import (
    MAX_AWAITED,
    MAX_NAMES,
    MAX_WAIT_FRAMES,
    Activity,
    ActivityInfo,
    OtherProcess,
    Target,
    ThreadWait,
)
from dbg_wire.records.record import clamp

MAX_SECONDS = 0.25
"""Seconds after which one snapshot stops querying the kernel. Each query releases the GIL, and another thread may
keep the GIL for 5 ms. On a busy host, other processes cause as much delay again."""

_STORES = frozenset(
    (module, name)
    for module in ("torch._C._distributed_c10d", "torch.distributed.distributed_c10d")
    for name in ("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore")
)
"""torch's stores, by module and name: `get` waits until some rank has set the key."""

_WORKS, _GROUPS = (frozenset((module, name) for module, _ in _STORES) for name in ("Work", "ProcessGroup"))
"""torch's classes, by module and name: ``Work``, which asynchronous calls return, and ``ProcessGroup``, whose methods
make such calls."""

MAX_FUNCTION = 60
"""Maximum number of characters of a function's name."""

MAX_OTHERS = 8
"""Maximum number of other processes whose activity is reported in one snapshot."""

MAX_FRAMES_TEXT = 300_000
"""Maximum number of characters of the frames of all threads, as JSON: less than half of MAX_ANSWER_BYTES, because the
answer has other contents, too."""


def threads_seen(halted: int | None) -> list[ThreadWait]:
    """Return the activity of each thread and task, the main thread first.

    ``halted`` is the ident of a thread in a stop, or None. The link's thread calls this function. The
    function takes no lock and runs no code of the program.
    """
    threads = seen_threads(halted)
    holders = Holders(threads)
    by_frames = {thread.ident: _by_frames(thread, threads, holders, halted) for thread in threads}
    until = time.monotonic() + MAX_SECONDS
    waits = {thread.ident: _by_kernel(thread, by_frames[thread.ident], until) for thread in threads}
    waits |= {one.ident: _at_exit(one, waits[one.ident]) for one in threads if one.is_main}
    numbers = {thread.ident: number for number, thread in enumerate(threads, 1)}
    tasks = list(_tasks(threads, waits, len(threads)))
    record = [_record(thread, waits[thread.ident], numbers) for thread in threads]
    record = [_of_loop(one, tasks, waits[thread.ident]) for one, thread in zip(record, threads, strict=True)]
    return [*_bounded([*record, *(task for _, _, task in tasks)]), *_ended(), *_handled(threads)]


def _tasks(
    threads: Sequence[SeenThread], waits: Mapping[int, Wait], count: int
) -> Iterator[tuple[object, bool, ThreadWait]]:
    """For each task of the threads' event loops, yield its loop, True if no other task waits for it, and its record."""
    for thread in threads:
        loop = waits[thread.ident].loop
        if loop is None or loop is UNKNOWN:
            continue
        try:
            # Imported here, because all programs are inspected, and few have an event loop.
            from dbg_agent.evidence.tasks import roots, seen_tasks

            found = seen_tasks(loop)
        except Exception:  # noqa: S112 - another release of Python may store its tasks differently
            continue
        numbers = {id(task.task): count + at for at, task in enumerate(found, 1)}
        first = {id(task.task) for task in roots(found, thread.frames)}
        count += len(found)
        for task in found:
            seen = clamp(
                ThreadWait,
                thread=f"task {task.name}",
                does=task.does,
                number=numbers[id(task.task)],
                awaits=tuple(numbers[id(one)] for one in task.awaits if id(one) in numbers)[:MAX_AWAITED],
                frames=places_of(task.frames)[-MAX_WAIT_FRAMES:],
            )
            yield loop, id(task.task) in first, seen


def _of_loop(record: ThreadWait, tasks: Sequence[tuple[object, bool, ThreadWait]], wait: Wait) -> ThreadWait:
    """Turn the wait of a thread in an event loop into a wait for the loop's tasks that no other task waits for."""
    first = [task for loop, is_first, task in tasks if loop is wait.loop and is_first] if wait.loop is not None else []
    if not first:
        return record
    names = tuple(dict.fromkeys(task.thread.removeprefix("task ") for task in first))
    does = record.does.replace(names=names[:MAX_NAMES], count=len(first))
    return record.replace(does=does, awaits=tuple(task.number for task in first)[:MAX_AWAITED])


def processes_seen(record: Sequence[ThreadWait]) -> Iterator[OtherProcess]:
    """Yield the activity of the processes that threads wait for, and of the processes that these wait for in turn."""
    until = time.monotonic() + MAX_SECONDS
    to_go = [wait.holder for wait in record if wait.holder is not None]
    to_go += [one.pid for wait in record if wait.is_main for one in wait.does.processes]
    seen = {os.getpid()}
    while to_go and len(seen) <= MAX_OTHERS and time.monotonic() < until:
        pid = to_go.pop(0)
        if pid not in seen:
            seen.add(pid)
            shown_as, holder = does(pid)
            to_go += [holder] if holder is not None else []
            yield clamp(OtherProcess, pid=pid, does=shown_as, holder=holder)


def _ended() -> list[ThreadWait]:
    """Return the threads that an exception ended most recently."""
    return [
        clamp(
            ThreadWait,
            thread=one.name,
            does=doing(Activity.RAISED, name=one.error, place=one.place, seconds=one.seconds),
        )
        for one in ended_threads()
    ]


def _handled(threads: Sequence[SeenThread]) -> list[ThreadWait]:
    """Return the exception that the main thread is handling: other ranks may wait for code that it skipped."""
    main = next((one for one in threads if one.is_main), None)
    handled = handled_exception(main.ident) if main is not None else None
    if main is None or handled is None:
        return []
    name, place = handled
    return [clamp(ThreadWait, thread=main.name, does=doing(Activity.HANDLES, name=name, place=place))]


def _bounded(record: list[ThreadWait]) -> list[ThreadWait]:
    """Drop frames if all together exceed MAX_FRAMES_TEXT. Frames of threads that wait for others are kept longest."""
    left = MAX_FRAMES_TEXT
    without = set()
    for at in sorted(range(len(record)), key=lambda at: (not record[at].awaits, not record[at].is_main, at)):
        left -= sum(len(place.file) + len(place.function) + 50 for place in record[at].frames)
        if left < 0:
            without.add(at)
    return [one.replace(frames=()) if at in without else one for at, one in enumerate(record)]


def _by_frames(
    thread: SeenThread, threads: Sequence[SeenThread], holders: Holders, halted: int | None
) -> Wait | CallSite | None:
    """Return the thread's wait. If its frames don't show a wait, return the call that the thread is in, or None."""
    if thread.ident == halted:
        return Wait(ActivityInfo(what=Activity.STOP))
    if not thread.frames:
        return Wait(ActivityInfo(what=Activity.NO_CODE))
    place = short_place(thread.frames)
    try:
        collective = collective_of(thread.places)
        if collective:
            return Wait(doing(Activity.COLLECTIVE, name=collective, address=_store(thread), place=place))
        record = library_wait(thread, threads)
        if record is not None:
            return record
        if not is_calling(thread.frames[0]):
            return Wait(ActivityInfo(what=Activity.RUNS, place=place))
        site = call_site(thread.frames[0], reads=thread.is_readable)
        if site is None:
            return None
        in_library = mpi_wait(thread.frames[0], site.called, place) or jax_wait(thread.frames[0], place)
        return Wait(in_library) if in_library is not None else _in_lock(thread, threads, holders, site) or site
    except Exception as error:
        # The code may not come from Python's compiler, so reading it may fail.
        return Wait(doing(Activity.UNREADABLE, state=type(error).__name__))


def _store(thread: SeenThread) -> str:
    """Return the address of torch's store if the thread waits there for all ranks to connect; else empty."""
    frame = next((one for one in thread.frames if one.f_code.co_name == "_create_c10d_store"), None)
    if frame is None or not thread.is_readable:
        return ""
    host, port = local(frame, "hostname"), local(frame, "port")
    return f"{host[:80]}:{port}" if type(host) is str and type(port) is int else ""


def _by_kernel(thread: SeenThread, known: Wait | CallSite | None, until: float) -> Wait:
    """Complete the activity of a thread with data from the kernel, if there is time."""
    is_in_time = time.monotonic() < until
    if isinstance(known, Wait):
        if known.ask is None or not is_in_time:
            return known
        record, holder = known.ask()
        return known._replace(does=record, holder=holder, is_sure=known.is_sure or holder is not None)
    if known is not None and _is_sleep(known):
        return Wait(_sleeping(thread, known))
    before = thread.frames[0].f_lasti
    call = system_call(thread.native) if thread.native is not None and is_in_time else None
    found = waits_in(call) if call is not None else None
    now, place = all_frames().get(thread.ident), short_place(thread.frames)
    if now is not thread.frames[0] or now.f_lasti != before:
        return Wait(ActivityInfo(what=Activity.RUNS, place=place))
    called = known.called.text if known is not None else ""
    if found is None:
        state = call.name if call is not None else ""
        return Wait(doing(Activity.NATIVE, function=called, place=place, state=state))
    record, holder = found
    if record.target is Target.SOCKET and not record.name:
        # The kernel does not name the other end of a socket pair; most likely a child has it.
        record, holder = from_workers(record)
    if record.what is Activity.SLEEP and called:
        # C code sleeps while it waits for something that the kernel doesn't know: SQLite sleeps until a lock is free.
        record = doing(Activity.SLEEP, function=called, place=place)
    return Wait(record, holder=holder, is_sure=True)


def _in_lock(thread: SeenThread, threads: Sequence[SeenThread], holders: Holders, site: CallSite) -> Wait | None:
    wanted = wanted_lock(site)
    if wanted is None:
        found = _in_other_lock(site, thread.frames[0])
        return Wait(found) if found is not None else None
    holder = holders.of(wanted.lock)
    named = _named(wanted.text, thread.frames[0])
    owner = next((one for one in threads if one.ident == holder), None)
    if owner is None:
        return Wait(doing(Activity.LOCK, **named))
    # Any argument other than `blocking` may be a timeout, after which the thread continues without the lock.
    is_bound = site.is_whole and not site.named and site.positional in ((), (True,))
    # The place is where the owner is now, not where it took the lock.
    what = Activity.OWN_LOCK if owner.ident == thread.ident else Activity.LOCK
    does = doing(what, thread=owner.name, place=short_place(owner.frames), **named)
    # Only an RLock knows its owner; for other locks the holder is derived from frames.
    is_sure = owner_of(wanted.lock) == owner.ident
    return Wait(does, frozenset({owner.ident}) if is_bound else frozenset(), is_sure=is_sure)


def _named(text: str, frame: FrameType) -> dict[str, str]:
    """Return the lock's expression, and the module if a library uses it: a user can't know `self.…` of a library."""
    is_library = text.startswith("self.") and not is_users_file(frame.f_code.co_filename)
    return {"name": text, "module": module_of(frame) if is_library else ""}


def _in_other_lock(site: CallSite, frame: FrameType) -> ActivityInfo | None:
    """Return the wait of a thread at an object other than a lock, such as a queue; None if there is no such wait."""
    value = site.called.value if site.is_with else site.called.owner
    kind = class_of(value)
    # class_of() reads the class's dictionary. Some C classes have no module there, so ask the class itself.
    built_in = f"{type(value).__module__}.{type(value).__name__}" if type(type(value)) is type else ""
    text = site.called.text if site.is_with else site.called.owner_text
    if built_in == "_queue.SimpleQueue" and site.called.name == "get":
        return doing(Activity.QUEUE_GET, name=text)
    if site.called.name in ("get", "wait") and kind in _STORES:
        key = site.positional[0] if len(site.positional) == 1 else UNKNOWN
        return doing(Activity.STORE_KEY, name=key[:80] if type(key) is str else "", module=kind[1], owner=text)
    if built_in == "_multiprocessing.SemLock":
        return doing(Activity.PROCESS_LOCK, name=text if is_users_file(frame.f_code.co_filename) else "")
    if site.called.name == "wait" and kind in _WORKS:
        # This wait may be for a send or a receive of gloo. The recorder reports collectives, but neither of these.
        return doing(Activity.WORK, name=text)
    if site.called.name == "wait" and site.made is not None and class_of(site.made.called.owner) in _GROUPS:
        made = site.made.called
        return doing(Activity.GROUP_CALL, name=made.name, owner=made.owner_text, place=short_place([frame]))
    if built_in == "_thread._ThreadHandle":
        return ActivityInfo(what=Activity.JOIN)
    if value is UNKNOWN and (site.is_with or site.called.name == "acquire"):
        return doing(Activity.LOCK, **_named(text, frame))
    return None


def _sleeping(thread: SeenThread, site: CallSite) -> ActivityInfo:
    """Return the activity of a sleeping thread: a poll of a file, a retry, or a plain sleep."""
    given: Any = site.positional[0] if len(site.positional) == 1 else UNKNOWN
    seconds = given if type(given) in (int, float) else None
    polled = polled_file(thread.frames, reads=thread.is_readable)
    if polled is not None:
        return doing(Activity.POLLED_FILE, name=polled, seconds=seconds)
    return retried(thread.frames) or doing(Activity.SLEEP, function="time.sleep", seconds=seconds)


def _at_exit(thread: SeenThread, wait: Wait) -> Wait:
    """Add to the wait the name of the `atexit` function that the main thread runs after the program has ended."""
    main, outermost = threading.main_thread(), thread.frames[-1] if thread.frames else None
    if outermost is None or main.ident != thread.ident or main.is_alive():
        return wait
    # The program has ended after this snapshot was made, so the outermost frame is still the program's.
    if outermost.f_code.co_name == "<module>" or module_of(outermost) == "threading":
        return wait
    return wait._replace(does=wait.does.replace(at_exit=printable(outermost.f_code.co_name[:MAX_FUNCTION])))


def _is_sleep(site: CallSite) -> bool:
    return site.called.value is sys.modules["time"].sleep or (
        site.called.name == "sleep" and site.called.owner is sys.modules["time"]
    )


def _record(thread: SeenThread, wait: Wait, numbers: Mapping[int, int]) -> ThreadWait:
    return clamp(
        ThreadWait,
        thread=thread.name,
        does=wait.does,
        is_main=thread.is_main,
        number=numbers[thread.ident],
        awaits=tuple(sorted(numbers[ident] for ident in wait.others if ident in numbers))[:MAX_AWAITED],
        is_sure=wait.is_sure,
        holder=wait.holder,
        frames=thread.places[-MAX_WAIT_FRAMES:],
    )
