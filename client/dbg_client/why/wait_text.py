"""Text about the activity of a thread or process: ``waits for the lock guard that thread a holds``. Pure.

Each text is the end of a sentence. Ranks report only facts, and this module turns the facts into text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dbg_client.views.ages import show_age
from dbg_client.views.tree import file_line
from dbg_wire.errors import first_of, printable
from dbg_wire.records.evidence import Activity, ActivityInfo, NamedProcess, ProcessSeen, Relation, Target
from dbg_wire.records.ranks import End, Place

MAX_TEXT = 300
"""Maximum characters of a text from a rank, in one line."""

MAX_NAME = 40
"""Maximum characters of the name of a function or thread in a sentence."""

MAX_COMMAND, MAX_PATH = 16, 24
"""Maximum characters of a command line and of a path, in a sentence that must be shortened."""

MAX_NAMED = 3
"""Maximum number of names, and of processes, in the text of one wait."""

_TEMPLATES: Mapping[Activity, str] = {
    Activity.LOCK: "waits for {lock}{holder}",
    Activity.OWN_LOCK: "waits for {lock} that this thread already holds{at}",
    Activity.PROCESS_LOCK: "waits for the multiprocessing lock{name}, which another process may hold",
    Activity.TASK_LOCK: "waits for the lock{name}",
    Activity.CONDITION: "waits for the condition{name} to be notified",
    Activity.EVENT: "waits for the event{name} to be set",
    Activity.SEMAPHORE: "waits for the semaphore{name}",
    Activity.BARRIER: "waits at the barrier{name}{there}",
    Activity.THREADING: "waits in {function}() of {module}{name}",
    Activity.JOIN: "waits for the end of {thread}",
    Activity.SHUTDOWN: "has ended its program{rest}",
    Activity.FUTURE: "waits for the result of the future{name}{state}{in_thread}{sender}",
    Activity.TASK_FUTURE: "waits for a future{in_function}",
    Activity.FUTURES: "waits for the results of futures",
    Activity.TASKS: "waits for {tasks}",
    Activity.OTHER_TASKS: "waits for other tasks",
    Activity.THREAD_CALL: "waits for a thread",
    Activity.NATIVE_LOCK: "waits for a lock or a thread",
    Activity.QUEUE_GET: "waits for an item of the queue{name}{sender}",
    Activity.QUEUE_PUT: "waits for room in the queue{name}",
    Activity.QUEUE_JOIN: "waits until all items of the queue{name} are done",
    Activity.POOL_WORK: "waits for work from its thread pool",
    Activity.STORE_KEY: "waits for the key{name} of the {store}{owner} to be set",
    Activity.LOADER: "waits for DataLoader worker {count} ({process})",
    Activity.BATCH: "waits for a DataLoader batch{sender}",
    Activity.RAY_IDLE: "waits for an actor call or a Ray task",
    Activity.MESSAGE: "waits for a message on the connection{name}{sender}",
    Activity.MESSAGES: "waits for messages{sender}",
    Activity.POOL_RESULT: "waits for a result of a pool{of_workers}",
    Activity.CHILD_END: "waits for {child}",
    Activity.CHILD_OUTPUT: "reads the output of {child}",
    Activity.RAY_GET: "waits in ray.get for {actors}",
    Activity.FILE_LOCK: "waits for the lock of the file{name}{holders}",
    Activity.LOCK_FILE: "waits for the removal of the file{name}{holders_of_file}",
    Activity.POLLED_FILE: "polls for {polled} ({sleep} in between)",
    Activity.OPEN: "opens{name}",
    Activity.LOOK_AT: "checks{name}",
    Activity.READ: "reads {target}",
    Activity.WRITE: "writes to {target}",
    Activity.POLL: "waits for {target}{and_more}",
    Activity.ON_DESCRIPTOR: "is in {function}() on {target}",
    Activity.DESCRIPTOR_LOCK: "waits for the lock of {target}{holders}",
    Activity.LISTEN: "waits for connections on{name}",
    Activity.CONNECT: "connects to{name}",
    Activity.SELECT: "waits for events on its descriptors",
    Activity.STREAM_READ: "reads the stream{name}",
    Activity.STREAM_WRITE: "waits for room in the stream{name}",
    Activity.SERVE: "serves requests",
    Activity.SLEEP: "sleeps{for_seconds}{in_function}",
    Activity.SIGNAL: "waits for a signal",
    Activity.LOOPS: "has looped in {function}{in_file}{so_long}: {loop_names}",
    Activity.EVENT_LOOP: "waits for {tasks}",
    Activity.COLLECTIVE: "is in{name}{at_store}{at}",
    Activity.MPI: "is in MPI ({call_at})",
    Activity.MPI_REQUEST: "waits for an MPI request ({call_at})",
    Activity.JAX: "is in C code of JAX ({call_at})",
    Activity.WORK: "is in{name}.wait of a send, receive or collective that it started",
    Activity.GROUP_CALL: "is in{name} of the process group{owner}{at}",
    Activity.NATIVE: "is in C code{called}{system_call}",
    Activity.RUNS: "runs Python code{at}",
    Activity.READY: "is ready to run",
    Activity.NO_CODE: "runs no Python code",
    Activity.UNREADABLE: "can't be inspected ({error})",
    Activity.STOP: "is stopped in the debugger",
    Activity.PDB: "is stopped in pdb{at} and waits for a person to type",
    Activity.RAISED: "ended with{name}{at}{ago}",
    Activity.HANDLES: "handles{name}{at}",
    Activity.GONE: "has ended",
    Activity.SUSPENDED: "is suspended",
    Activity.TRACED: "is suspended by a tracer",
    Activity.DISK: "waits for a disk or a file system",
    Activity.SYSTEM_CALL: "is in the system call {function}",
    Activity.COMPUTES: "computes{in_place}",
    Activity.UNKNOWN: "waits for something that is unknown",
}
"""Text of each activity. A part in braces is a key of _PARTS; most parts are empty if their field is unknown."""

_OF_TARGETS: Mapping[Target | None, str] = {
    Target.TERMINAL: "waits for a person to type at its standard input ({path})",
    Target.INPUT: "waits for input at its standard input",
}
"""Texts for reads from these targets. Each replaces the text of the activity."""

Ranks = Mapping[int, int]
"""Ranks of one host by their process ids."""

NO_RANKS: Ranks = MappingProxyType({})


def wait_text(does: ActivityInfo, ranks: Ranks = NO_RANKS, *, brief: int = 0) -> str:
    """Return the activity of a thread or process. A process in ``ranks`` is named as a rank.

    From ``brief`` 1 on, names are shortened and times omitted. From 2 on, commands of processes are omitted too, and
    from 3 on also the place.
    """
    does = shortened(does, brief, ranks)
    template = _OF_TARGETS.get(does.target) or _TEMPLATES[does.what]
    text = template.format_map(_Parts(does, ranks))
    if does.place is not None and does.place.file.rpartition("/")[2] not in text:
        text += _at(does, ranks)
    if does.at_exit:
        text = f"has ended its program and is in {printable(does.at_exit, MAX_NAME)} (atexit), which {text}"
    return printable(text, MAX_TEXT)


def shortened(does: ActivityInfo, brief: int, ranks: Ranks = NO_RANKS) -> ActivityInfo:
    """Return a copy that is shortened to level ``brief``."""
    if not brief:
        return does
    processes = tuple(_shortened_process(does, one, brief, ranks) for one in does.processes)
    _, slash, name = does.name.rpartition("/")
    path = f"…/{name}" if slash and len(does.name) > MAX_PATH else does.name
    seconds = None if does.what in (Activity.RAISED, Activity.LOCK_FILE) else does.seconds
    place = does.place if brief < 3 else None
    return does.replace(name=path, processes=processes, seconds=seconds, place=place)


def _shortened_process(does: ActivityInfo, process: NamedProcess, brief: int, ranks: Ranks) -> NamedProcess:
    if brief == 1:
        is_long = len(process.command) > MAX_COMMAND
        return process.replace(command=f"{process.command[:MAX_COMMAND]}…") if is_long else process
    is_named = process.name and process.pid not in ranks and does.what is not Activity.LOADER
    return process.replace(command="", pid=0 if is_named else process.pid)


def process_text(process: ProcessSeen) -> str:
    """Return remarks on a rank's process from the kernel's data, such as its tracer, but no amounts; may be empty."""
    killed = "a process" if process.killed == 1 else f"{process.killed} processes"
    notes = (
        f"{_whom(process.tracer, NO_RANKS)} traces it" if process.tracer is not None else "",
        f"the kernel has killed {killed} of its cgroup because memory ran out" if process.killed else "",
        "it waits for a disk, a network file system or a device that does not answer" if process.state == "D" else "",
    )
    return "; ".join(filter(None, notes))


class _Parts(dict[str, str]):
    """Parts of a sentence. Each part is made when the template uses it."""

    def __init__(self, does: ActivityInfo, ranks: Ranks) -> None:
        super().__init__()
        self.does, self.ranks = does, ranks

    def __missing__(self, part: str) -> str:
        return _PARTS[part](self.does, self.ranks)


def _place(place: Place | None) -> str:
    return file_line(place) if place is not None else ""


def _lock(does: ActivityInfo, ranks: Ranks) -> str:
    title = f"the lock {does.name}" if does.name else "a lock"
    return f"{title} of {does.module}" if does.module else title


def _holder(does: ActivityInfo, ranks: Ranks) -> str:
    if does.thread:
        return f" that thread {does.thread} holds{_at(does, ranks)}"
    return "; its holder is unknown"


def _at(does: ActivityInfo, ranks: Ranks) -> str:
    return f" ({_place(does.place)})" if does.place is not None else ""


def _there(does: ActivityInfo, ranks: Ranks) -> str:
    return f", with {does.count} of {does.total} there" if does.count is not None and does.total is not None else ""


def _rest(does: ActivityInfo, ranks: Ranks) -> str:
    if not does.names:
        return ", and waits for other threads"
    return f" except thread{'s' * (len(does.names) > 1)} {', '.join(does.names)}"


def _tasks(does: ActivityInfo, ranks: Ranks) -> str:
    if not does.names:
        return "events of its asyncio loop"
    count, names = does.count or len(does.names), list(dict.fromkeys(does.names))
    several = f"{count} tasks" if len(names) == 1 else f"{count} tasks:"
    return f"{'its task' if count == 1 else several} {first_of(names, MAX_NAMED)}"


def _whom(process: NamedProcess, ranks: Ranks) -> str:
    """Return ``process 4711 (`sort big`)``."""
    if process.pid in ranks:
        return f"rank {ranks[process.pid]}"
    if process.relation is Relation.ITSELF:
        return "this process itself"
    about = "same program" if process.relation is Relation.SAME_PROGRAM else ""
    about = about or (f"`{process.command}`" if process.command else "which has ended" if process.has_ended else "")
    return f"process {process.pid}{f' ({about})' if about else ''}"


def _child(process: NamedProcess, ranks: Ranks) -> str:
    """Return ``VllmWorker-1 (process 4711)``."""
    if process.name and not process.pid:
        return process.name
    return f"{process.name} ({_number(process, ranks)})" if process.name else _whom(process, ranks)


def _number(process: NamedProcess, ranks: Ranks) -> str:
    return f"rank {ranks[process.pid]}" if process.pid in ranks else f"process {process.pid}"


def _end(process: NamedProcess) -> str:
    return End(exit=process.status or 0).sentence


def _several(does: ActivityInfo, ranks: Ranks, named: Callable[[NamedProcess, Ranks], str] = _whom) -> str:
    left = len(does.processes[MAX_NAMED:]) + does.more
    phrase = " and ".join(named(one, ranks) for one in does.processes[:MAX_NAMED])
    return f"{phrase} and {left} more" if left else phrase


def _sender(does: ActivityInfo, ranks: Ranks) -> str:
    if not does.processes:
        return {Activity.MESSAGE: " to another process", Activity.MESSAGES: " from other processes"}.get(does.what, "")
    first = does.processes[0]
    if len(does.processes) > 1:
        return f" from one of its children: {_several(does, ranks, _child)}"
    if first.relation is Relation.PARENT:
        return f" from its parent ({_number(first, ranks)})"
    if first.name:
        ended = f", which {_end(first)}" if first.status is not None else ""
        return f" from its child {_child(first, ranks)}{ended}"
    return f" from {_whom(first, ranks)}"


def _of_workers(does: ActivityInfo, ranks: Ranks) -> str:
    ended = " and ".join(f"{_child(one, ranks)} {_end(one)}" for one in does.processes[:MAX_NAMED])
    return f", whose worker {ended} and was replaced" if ended else " of processes"


def _awaited_child(does: ActivityInfo, ranks: Ranks) -> str:
    if not does.processes:
        return f"the process {does.name}" if does.name else "the end of any child process"
    (first, *_) = does.processes
    return f"the end of its child {_child(first, ranks)}" if first.name else _whom(first, ranks)


def _actors(does: ActivityInfo, ranks: Ranks) -> str:
    if not does.names:
        return "results"
    more = f" and {len(does.names) - MAX_NAMED} more" if len(does.names) > MAX_NAMED else ""
    named = list(does.names[:MAX_NAMED])
    for at, process in enumerate(does.processes[: len(named)]):
        named[at] = f"{named[at]} of {_whom(process, ranks)}" if process.pid else named[at]
    return f"the actor{'s' * (len(does.names) > 1)} {' and '.join(named)}{more}"


def _holders(does: ActivityInfo, ranks: Ranks) -> str:
    if not does.processes:
        return ""
    if len(does.processes) > 1:
        return f", which {_several(does, ranks)} hold"
    is_own = does.processes[0].relation is Relation.ITSELF and does.processes[0].pid not in ranks
    return ", which this process holds itself" if is_own else f", which {_whom(does.processes[0], ranks)} holds"


def _holders_of_file(does: ActivityInfo, ranks: Ranks) -> str:
    if does.processes:
        return _holders(does, ranks)
    made = f", created {_ago(does.seconds)}" if does.seconds is not None else ""
    return f"{made}, not open in any process here"


def _ago(seconds: float | None) -> str:
    return f"{show_age(seconds)} ago" if seconds is not None else ""


def _polled(does: ActivityInfo, ranks: Ranks) -> str:
    return f"the file {does.name}" if does.name else "a file"


def _sleep(does: ActivityInfo, ranks: Ranks) -> str:
    return f"time.sleep({does.seconds:g})" if does.seconds is not None else "time.sleep"


def _for_seconds(does: ActivityInfo, ranks: Ranks) -> str:
    return f" ({_sleep(does, ranks)})" if does.function == "time.sleep" else ""


def _in_function(does: ActivityInfo, ranks: Ranks) -> str:
    return f" in {does.function}{_at(does, ranks)}" if does.function not in ("", "time.sleep") else ""


def _target(does: ActivityInfo, ranks: Ranks) -> str:
    """Return the file of a descriptor, with the process at the other end of a pipe."""
    stream = f" ({_STREAMS[does.descriptor]})" if does.descriptor in _STREAMS else ""
    way = "to" if does.what is Activity.WRITE else "from"
    whom = f" {way} {_several(does, ranks)}" if does.processes and does.what is not Activity.DESCRIPTOR_LOCK else ""
    if does.target is Target.SOCKET:
        return f"the socket {does.name}{stream}" if does.name else f"a socket{stream}{_sender(does, ranks)}"
    if does.target is Target.FULL_PIPE and len(does.processes) == 1 and does.processes[0].pid in ranks:
        return f"a full pipe{stream} that only rank {ranks[does.processes[0].pid]} could read"
    if does.target in (Target.PIPE, Target.FULL_PIPE):
        full = "full " * (does.target is Target.FULL_PIPE)
        unknown = "; its reader is unknown" if does.what is Activity.WRITE and not whom else ""
        if does.what is not Activity.WRITE and {one.relation for one in does.processes} == {Relation.ITSELF}:
            whom = " of its own process"
        return f"a {full}pipe{stream}{whom}{unknown}"
    if does.target is Target.OTHER:
        return does.name or f"descriptor {does.descriptor}"
    return f"the {'device' if does.target is Target.DEVICE else 'file'} {does.name}{stream}"


_STREAMS: Mapping[int | None, str] = {0: "its standard input", 1: "its standard output", 2: "its standard error"}


def _call_at(does: ActivityInfo, ranks: Ranks) -> str:
    return ", ".join(filter(None, (does.name, _place(does.place))))


def _called(does: ActivityInfo, ranks: Ranks) -> str:
    if does.place is None and not does.function:
        return ""
    where = f"called at {_place(does.place)}" if does.place is not None else ""
    return f" ({' '.join(filter(None, (does.function, where)))})"


def _so_long(does: ActivityInfo, ranks: Ranks) -> str:
    if does.total:
        return f" for up to {show_age(does.total)}"
    return f" for at least {show_age(does.seconds)}" if does.seconds is not None and does.seconds >= 1 else ""


def _in_file(does: ActivityInfo, ranks: Ranks) -> str:
    return f" ({printable(does.place.file.rpartition('/')[2], MAX_NAME)})" if does.place is not None else ""


def _field(name: str, before: str = "", behind: str = "") -> Callable[[ActivityInfo, Ranks], str]:
    """Return a function that makes a part of the sentence from a text field, or "" if the field is empty."""

    def part(does: ActivityInfo, ranks: Ranks) -> str:
        value: str = getattr(does, name)
        return f"{before}{value}{behind}" if value else ""

    return part


_PARTS: Mapping[str, Callable[[ActivityInfo, Ranks], str]] = {
    "name": _field("name", " "),
    "owner": _field("owner", " "),
    "module": _field("module"),
    "function": _field("function"),
    "path": _field("name"),
    "error": _field("state"),
    "state": lambda does, ranks: f", which is {does.state}" if does.state and not does.processes else "",
    "system_call": _field("state", ", in the system call "),
    "in_thread": _field("thread", " in thread "),
    "at_store": _field("address", " at the store "),
    "thread": lambda does, ranks: f"thread {does.thread}" if does.thread else "another thread",
    "count": lambda does, ranks: str(does.count),
    "loop_names": lambda does, ranks: ", ".join(does.names),
    "and_more": lambda does, ranks: f" and {does.count} more" if does.count else "",
    "ago": lambda does, ranks: f" {_ago(does.seconds)}" if does.seconds is not None else "",
    "so_long": _so_long,
    "in_place": lambda does, ranks: f" in {does.function}{_at(does, ranks)}" if does.function else _at(does, ranks),
    "process": lambda does, ranks: _number(does.processes[0], ranks) if does.processes else "a process",
    "store": lambda does, ranks: does.module or "store",
    "lock": _lock,
    "holder": _holder,
    "at": _at,
    "there": _there,
    "rest": _rest,
    "tasks": _tasks,
    "sender": _sender,
    "of_workers": _of_workers,
    "child": _awaited_child,
    "actors": _actors,
    "holders": _holders,
    "holders_of_file": _holders_of_file,
    "polled": _polled,
    "sleep": _sleep,
    "for_seconds": _for_seconds,
    "in_function": _in_function,
    "target": _target,
    "call_at": _call_at,
    "called": _called,
    "in_file": _in_file,
}
"""Functions that make the parts of a template, by their names in braces."""
