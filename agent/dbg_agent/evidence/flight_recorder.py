"""What torch's flight recorders tell: the last collectives of this process, and which of them have ended.

torch builds a dump while it holds Python's lock, 15 µs for each entry, so that a full buffer stops the program for 30
ms. How much is in a buffer is cheap to ask. A program that moves has its entries read only if they are few.
"""

from __future__ import annotations

import io
import json
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import BuiltinFunctionType, ModuleType
from typing import Any

NATIVE_MODULE = "torch._C._distributed_c10d"
"""The module that has the recorders."""

FEW_ENTRIES = 300
"""Entries that are read in any case: they take less than 5 ms."""

UNMOVED_SECONDS = 0.5
"""Seconds after which a recorder that tells the same as before counts as standing still."""

_BETWEEN = b'},{"collective_seq_id":'
"""The text between two entries. torch sorts the keys, and no text within an entry holds a quote that is not escaped."""

_MOST_COMPLETED = 64
"""Groups of which the last completed collective is looked for."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded collective, or a send or receive; ``created`` is in nanoseconds since 1970."""

    group: str
    title: str
    library: str
    name: str
    state: str
    is_retired: bool
    is_p2p: bool
    sequence: int
    created: int
    timeout: int
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]

    @property
    def is_unfinished(self) -> bool:
        """Tell whether the collective has not ended: gloo's entries stay `scheduled`, and are retired at their end."""
        return not self.is_retired and self.state != "completed"


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
    for backend, name in (("gloo", "_dump_fr_trace_json"), ("nccl", "_dump_nccl_trace_json")):
        dump = _native(native, name)
        if dump is not None:
            found.append(Recorder(backend, _calls(dump, False, False), _calls(dump, True, False)))
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


def entries_of(dump: bytes) -> list[Entry]:
    """Return the unfinished entries and the last completed one of each group, in the order of recording.

    Raise ValueError, or another exception of its kind, if the dump has another form.
    """
    if not dump.startswith(b"{"):
        return _chosen([_entry(raw) for raw in _Plain(io.BytesIO(dump)).load().get("entries", [])])
    begin = dump.find(b'"entries":[{"collective_seq_id":')
    if begin < 0:
        return _chosen([_entry(raw) for raw in json.loads(dump).get("entries", [])])
    return _chosen([_entry(raw) for raw in _worth_parsing(dump, begin + len(b'"entries":['))])


def _worth_parsing(dump: bytes, begin: int) -> list[dict[str, Any]]:
    """Parse the entries that may count: to parse all of a full buffer would take as long as to build the dump."""
    decoder = json.JSONDecoder()
    pieces = dump[begin:].split(_BETWEEN)
    chosen: list[dict[str, Any]] = []
    seen: set[bytes] = set()
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number]
        group = _field(piece, b'"process_group":["')
        is_ended = b'"retired":true' in piece or b'"state":"completed"' in piece
        if is_ended and not _is_coalesced(piece) and (group in seen or len(seen) >= _MOST_COMPLETED):
            continue
        if is_ended and b'"is_p2p":true' not in piece:
            seen.add(group)
        text = (piece if number == 0 else b'{"collective_seq_id":' + piece) + b"}"
        chosen.append(decoder.raw_decode(text.decode())[0])
    chosen.reverse()
    return chosen


def recent_entries(dump: bytes, most: int) -> list[dict[str, Any]]:
    """Return the last ``most`` collectives of each group and library as torch has them, the oldest first.

    Raise ValueError, or another exception of its kind, if the dump has another form.
    """
    begin = dump.find(b'"entries":[{"collective_seq_id":')
    found: list[dict[str, Any]] = []
    counts: dict[tuple[bytes, bytes], int] = {}
    if begin < 0:
        whole = json.loads(dump) if dump.startswith(b"{") else _Plain(io.BytesIO(dump)).load()
        for raw in reversed(whole.get("entries", [])):
            key = str(raw["process_group"][0]).encode(), str(raw["profiling_name"]).partition(":")[0].encode()
            if not raw.get("is_p2p") and counts.setdefault(key, 0) < most:
                counts[key] += 1
                found.append(raw)
        return found[::-1]
    decoder, pieces = json.JSONDecoder(), dump[begin + len(b'"entries":[') :].split(_BETWEEN)
    for number in range(len(pieces) - 1, -1, -1):
        piece = pieces[number]
        key = _field(piece, b'"process_group":["'), _field(piece, b'"profiling_name":"').partition(b":")[0]
        if b'"is_p2p":true' in piece or counts.setdefault(key, 0) >= most:
            continue
        counts[key] += 1
        text = (piece if number == 0 else b'{"collective_seq_id":' + piece) + b"}"
        found.append(decoder.raw_decode(text.decode())[0])
    return found[::-1]


def _is_coalesced(piece: bytes) -> bool:
    # Members of a batch are told to have ended by the entry of the batch behind them.
    return b'coalesced"' in piece


def _field(piece: bytes, before: bytes) -> bytes:
    begin = piece.find(before)
    return piece[begin : piece.find(b'"', begin + len(before))] if begin >= 0 else b""


class _Plain(pickle.Unpickler):
    """A reader of pickles that hold texts, numbers, lists and dicts alone."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def _entry(raw: dict[str, Any]) -> Entry:
    group, title = raw["process_group"]
    library, _, name = str(raw["profiling_name"]).partition(":")
    is_p2p = bool(raw.get("is_p2p"))
    return Entry(
        group=str(group),
        title=str(title),
        library=library,
        name=name,
        state=str(raw.get("state")),
        is_retired=raw.get("retired") is True,
        is_p2p=is_p2p,
        sequence=int(raw["p2p_seq_id" if is_p2p else "collective_seq_id"]),
        created=int(raw.get("time_created_ns", 0)),
        timeout=int(raw.get("timeout_ms", 0)),
        shapes=tuple(tuple(map(int, shape)) for shape in raw.get("input_sizes", ())),
        types=tuple(map(str, raw.get("input_dtypes", ()))),
    )


def _chosen(entries: list[Entry]) -> list[Entry]:
    """Return the unfinished entries, and the last completed one of each group."""
    kept: list[Entry] = []
    completed: set[tuple[str, str]] = set()
    batch_has_ended: dict[tuple[str, str], bool] = {}
    for entry in reversed(entries):
        group = entry.group, entry.library
        if entry.name.endswith("coalesced"):
            batch_has_ended[group] = not entry.is_unfinished
        # The members of a batch stay `scheduled` in the recorder; only the entry of the batch, behind them, goes on.
        elif entry.is_unfinished and entry.state == "scheduled" and entry.library == "nccl":
            if batch_has_ended.get(group):
                continue
        else:
            batch_has_ended.pop(group, None)
        if entry.is_unfinished:
            kept.append(entry)
        elif group not in completed and not entry.is_p2p:
            completed.add(group)
            kept.append(entry)
    kept.reverse()
    return kept
