"""torch's flight recorders: the most recent collectives of this process, and which of them have ended.

torch holds the GIL while it builds a dump, for 15 µs per entry. The dump of a full buffer stops the program for 30 ms.
The number of entries is cheap to query. While the program makes progress, entries are only read if they are few.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, ModuleType
from typing import Any

from dbg_agent.frames.stacks import is_users_file
from dbg_agent.process.threads import own_thread
from dbg_wire.recorder.entries import RecorderEntry, entries_of
from dbg_wire.recorder.seen import places_in
from dbg_wire.records.ranks import Place

NATIVE_MODULE = "torch._C._distributed_c10d"
"""The C module that has the recorders."""

FEW_ENTRIES = 300
"""Maximum number of entries that are read even while the program makes progress: they take less than 5 ms."""

UNCHANGED_SECONDS = 0.5
"""Seconds after which a recorder with an unchanged status is treated as idle."""

PLACES_SECONDS = 0.3
"""Maximum time, in seconds, that a query waits for the places of calls. A full buffer takes 30 ms, but the first dump
of a process takes seconds."""

RecordedCall = tuple[str, bool, int]
"""Identity of a call: its group, True if it is a point-to-point call, and its number."""


@dataclass
class Recorded:
    """Data of one recorder; ``entries`` is None if they were not read.

    A recorder that ``is_on`` may not have recorded anything yet. ``numbers`` are the last enqueued and the last
    completed collective of each group.
    """

    is_on: bool = False
    is_used: bool = False
    entries: list[RecorderEntry] | None = None
    numbers: tuple[tuple[int, int], ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Recorder:
    """The functions that return the content of the recorder of one ``backend``."""

    backend: str
    status: Callable[[], bytes] | None
    dump: Callable[[], bytes]
    stacks: Callable[[], bytes] | None = None
    """Function that returns a dump with the stacks of the calls. The first such dump takes seconds of CPU time."""


@dataclass
class LastStatus:
    """The most recent status of each recorder, by backend, and the time of its latest change."""

    reported: dict[str, tuple[bytes, float]] = field(default_factory=dict)

    def is_unchanged(self, backend: str, status: bytes) -> bool:
        """Record a recorder's status. Return True if it has not changed for UNCHANGED_SECONDS."""
        now = time.monotonic()
        reported, since = self.reported.get(backend, (b"", now))
        if reported != status:
            since = now
        self.reported[backend] = status, since
        return now - since >= UNCHANGED_SECONDS


def recorders_of(native: ModuleType) -> list[Recorder]:
    """Return the recorders of this torch. A function of a recorder that the program has replaced is ignored."""
    found = []
    for backend, name in (("gloo", "_dump_fr_trace"), ("nccl", "_dump_nccl_trace")):
        dump, pickled = _native(native, f"{name}_json"), _native(native, name)
        stacks = _calls(pickled, True, True, False) if pickled is not None else None
        if dump is not None:
            found.append(Recorder(backend, _calls(dump, False, False), _calls(dump, True, False), stacks))
    dump = _native(native, "_dump_nccl_trace")
    if dump is not None and not any(recorder.backend == "nccl" for recorder in found):
        # torch 2.4 only has this format: a pickle, without the numbers of the groups.
        found.append(Recorder("nccl", None, _calls(dump, True, False, False)))
    return found


def _native(module: ModuleType, name: str) -> Callable[..., bytes] | None:
    found = vars(module).get(name)
    return found if type(found) is BuiltinFunctionType else None


def _calls(dump: Callable[..., bytes], *arguments: bool) -> Callable[[], bytes]:
    return lambda: dump(*arguments)


def read(recorder: Recorder, before: LastStatus, *, is_still: bool) -> Recorded:
    """Read a recorder. ``is_still`` means that the program is waiting, so a long dump does not delay it.

    It never raises: an error is reported in ``failure``.
    """
    recorded = Recorded()
    try:
        if recorder.status is not None and not _is_worth_it(recorder, before, recorded, is_still):
            return recorded
        recorded.entries = entries_of(recorder.dump())
        recorded.is_used = recorded.is_used or bool(recorded.entries)
    except Exception as error:
        recorded.failure = type(error).__name__
    return recorded


class CallPlaces:
    """The places in the user's code where recorded calls were made. A background thread reads them from the recorder.

    The thread of the agent's connection calls :meth:`read`.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[RecordedCall, Place | None]] = {}
        """The places by backend; None for a call without a frame of the user's code."""
        self._reading: threading.Thread | None = None

    def read(self, recorder: Recorder, calls: Iterable[RecordedCall]) -> Mapping[RecordedCall, Place | None]:
        """Return the known places. If some of ``calls`` are missing, start reading unless it is already running."""
        known = self._places.get(recorder.backend, {})
        is_reading = self._reading is not None and self._reading.is_alive()
        if recorder.stacks is not None and not is_reading and not known.keys() >= set(calls):
            self._reading = own_thread(partial(self._read, recorder.backend, recorder.stacks), "dbg-agent-recorder")
            with suppress(RuntimeError):
                self._reading.start()
                is_reading = True
        if is_reading and self._reading is not None:
            self._reading.join(PLACES_SECONDS)
        return self._places.get(recorder.backend, {})

    def _read(self, backend: str, stacks: Callable[[], bytes]) -> None:
        # Another release of torch may use another format. If the thread raised, the job's output would show the error.
        with suppress(Exception):
            self._places[backend] = {call_of(entry): _users_place(entry) for entry in entries_of(stacks())}


def call_of(entry: RecorderEntry) -> RecordedCall:
    """Return the identity of an entry's call."""
    return entry.group, entry.is_p2p, entry.sequence


def _users_place(entry: RecorderEntry) -> Place | None:
    return next((place for place in reversed(places_in(entry)) if is_users_file(place.file)), None)


def _is_worth_it(recorder: Recorder, before: LastStatus, recorded: Recorded, is_still: bool) -> bool:
    """Return True if the entries should be read, according to the status, which is cheap to query."""
    status = recorder.status() if recorder.status is not None else b""
    is_unchanged = before.is_unchanged(recorder.backend, status)
    document = json.loads(status)
    # Only a recorder that is switched on reports the members of groups.
    recorded.is_on = bool(document.get("pg_config"))
    numbers = recorded.numbers = tuple(_numbers(document))
    recorded.is_used = bool(numbers)
    enqueued = sum(last for last, _ in numbers)
    # A main thread that waits for a GPU uses CPU time, so ``is_still`` is False. The numbers show that it waits.
    waits_for_gpu = recorder.backend == "nccl" and any(last > completed for last, completed in numbers)
    return bool(numbers) and (enqueued <= FEW_ENTRIES or is_still or is_unchanged or waits_for_gpu)


def _numbers(document: Any) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the last enqueued and the last completed operation of each group."""
    for status in document.get("pg_status", {}).values():
        yield int(status["last_enqueued_collective"]), int(status["last_completed_collective"])
