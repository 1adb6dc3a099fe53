"""What torch's flight recorders tell: the last collectives of this process, and which of them have ended.

torch builds a dump while it holds Python's lock, 15 µs for each entry, so that a full buffer stops the program for 30
ms. How much is in a buffer is cheap to ask. A program that moves has its entries read only if they are few.
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
from dbg_wire.recorder.entries import Entry, entries_of
from dbg_wire.recorder.seen import places_in
from dbg_wire.records.ranks import Place

NATIVE_MODULE = "torch._C._distributed_c10d"
"""The module that has the recorders."""

FEW_ENTRIES = 300
"""Entries that are read in any case: they take less than 5 ms."""

UNMOVED_SECONDS = 0.5
"""Seconds after which a recorder that tells the same as before counts as standing still."""

PLACES_SECONDS = 0.3
"""Seconds that a look waits for the places of calls: a full buffer takes 30 ms, but the first dump of all seconds."""

RecordedCall = tuple[str, bool, int]
"""A call by its group, by whether it has a partner, and by its number."""


@dataclass
class Recorded:
    """What one recorder told; ``entries`` is None if they were not read. One that ``is_on`` may not be used yet.

    ``numbers`` are the last enqueued and the last completed collective of each group.
    """

    is_on: bool = False
    is_used: bool = False
    entries: list[Entry] | None = None
    numbers: tuple[tuple[int, int], ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Recorder:
    """The functions of one recorder, which return its content; ``backend`` is whose collectives it records."""

    backend: str
    status: Callable[[], bytes] | None
    dump: Callable[[], bytes]
    stacks: Callable[[], bytes] | None = None
    """A dump with the stacks of the calls: the first one takes torch seconds of a processor."""


@dataclass
class LastStatus:
    """The last status of each recorder, by backend, and since when that has not changed."""

    told: dict[str, tuple[bytes, float]] = field(default_factory=dict)

    def is_unmoved(self, backend: str, status: bytes) -> bool:
        """Note what a recorder tells now; tell whether it has told the same for a while."""
        now = time.monotonic()
        told, since = self.told.get(backend, (b"", now))
        if told != status:
            since = now
        self.told[backend] = status, since
        return now - since >= UNMOVED_SECONDS


def recorders_of(native: ModuleType) -> list[Recorder]:
    """Return the recorders that this torch has. A function that the program has put in a recorder's place is none."""
    found = []
    for backend, name in (("gloo", "_dump_fr_trace"), ("nccl", "_dump_nccl_trace")):
        dump, pickled = _native(native, f"{name}_json"), _native(native, name)
        stacks = _calls(pickled, True, True, False) if pickled is not None else None
        if dump is not None:
            found.append(Recorder(backend, _calls(dump, False, False), _calls(dump, True, False), stacks))
    dump = _native(native, "_dump_nccl_trace")
    if dump is not None and not any(recorder.backend == "nccl" for recorder in found):
        # torch 2.4 has this form alone: a pickle, without the numbers of the groups.
        found.append(Recorder("nccl", None, _calls(dump, True, False, False)))
    return found


def _native(module: ModuleType, name: str) -> Callable[..., bytes] | None:
    found = vars(module).get(name)
    return found if type(found) is BuiltinFunctionType else None


def _calls(dump: Callable[..., bytes], *arguments: bool) -> Callable[[], bytes]:
    return lambda: dump(*arguments)


def read(recorder: Recorder, before: LastStatus, *, is_still: bool) -> Recorded:
    """Return what a recorder tells. ``is_still`` says that the program waits, so that a long dump stops nothing.

    No exception comes out: what can't be read is told as a failure.
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
    """Where the user's code has called what recorders have, read by a thread of ours; for the link's thread."""

    def __init__(self) -> None:
        self._places: dict[str, dict[RecordedCall, Place | None]] = {}
        """By backend; None for a call without a frame of the user's."""
        self._reading: threading.Thread | None = None

    def read(self, recorder: Recorder, calls: Iterable[RecordedCall]) -> Mapping[RecordedCall, Place | None]:
        """Return what is known by now; calls that are not are looked for, if no look goes on."""
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
        # Another release may write another form. No fault of a reading may be printed into the job's output.
        with suppress(Exception):
            self._places[backend] = {call_of(entry): _users_place(entry) for entry in entries_of(stacks())}


def call_of(entry: Entry) -> RecordedCall:
    """Name the call of an entry."""
    return entry.group, entry.is_p2p, entry.sequence


def _users_place(entry: Entry) -> Place | None:
    return next((place for place in reversed(places_in(entry)) if is_users_file(place.file)), None)


def _is_worth_it(recorder: Recorder, before: LastStatus, recorded: Recorded, is_still: bool) -> bool:
    """Tell whether the entries are to be read, by the numbers of the groups, which cost next to nothing."""
    status = recorder.status() if recorder.status is not None else b""
    is_unmoved = before.is_unmoved(recorder.backend, status)
    document = json.loads(status)
    # A recorder that is switched off does not keep the members of the groups either.
    recorded.is_on = bool(document.get("pg_config"))
    numbers = recorded.numbers = tuple(_numbers(document))
    recorded.is_used = bool(numbers)
    enqueued = sum(last for last, _ in numbers)
    # A main thread that waits for a GPU spins, and so counts as moving.
    waits_for_gpu = recorder.backend == "nccl" and any(last > completed for last, completed in numbers)
    return bool(numbers) and (enqueued <= FEW_ENTRIES or is_still or is_unmoved or waits_for_gpu)


def _numbers(document: Any) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the last enqueued and the last completed operation of each group."""
    for status in document.get("pg_status", {}).values():
        yield int(status["last_enqueued_collective"]), int(status["last_completed_collective"])
