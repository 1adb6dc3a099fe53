"""Entries of a flight recorder's dump, JSON or pickle, from this process or from an untrusted file.

Pure. A dump in a format that torch does not write raises one of :data:`WRONG_FORM`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dbg_wire.recorder.plain_pickle import load_plain

MAX_ENTRIES = 100_000
"""Maximum number of entries of a dump that are read; the newest are kept. A recorder usually keeps 2000."""

MAX_TOLD = 128
"""Maximum number of the oldest entries of a file that are kept, because they may explain a hang. The newest entry of
each group is also kept, for at most as many groups."""

MAX_NAME = 500
"""Maximum number of characters of a name: torch's names have about ten, and a program's group names may be longer."""

MAX_INPUTS, MAX_DIMENSIONS = 10_000, 64
"""Maximum number of tensors of one call, and of dimensions of one tensor; torch has the same limit of dimensions."""

MAX_DIGITS = 20
"""Maximum number of digits of a number that is stored as text: torch's numbers have 64 bits."""

WRONG_FORM = (ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.DecodeError)
"""Exceptions that reading a dump raises if the dump is not in a format of torch. The most specific message is that of
NotPlain, which is a ValueError."""


@dataclass(frozen=True, kw_only=True)
class RecorderEntry:
    """One recorded collective, or a send or receive; ``created`` is a Unix time in nanoseconds, 0 if unknown.

    ``stack`` is the recorded stack of the call; it is empty if torch does not record stacks.
    """

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
    types: tuple[str, ...]
    inputs: Sequence[Any] = field(default=(), repr=False)
    stack: Sequence[Any] = field(default=(), repr=False)

    @property
    def is_unfinished(self) -> bool:
        """Whether the collective has not ended.

        With gloo the state of an entry stays `scheduled`, and only `retired` shows the end.
        """
        return not self.is_retired and self.state != "completed"

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs. They are parsed on access, because few entries of a full recorder need them."""
        return tuple(tuple(map(_number, shape[:MAX_DIMENSIONS])) for shape in self.inputs[:MAX_INPUTS])


@dataclass(frozen=True, kw_only=True)
class RecordedGroup:
    """A process group in a recorder; ``members`` are its global ranks, in the order of the group."""

    title: str
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Dump:
    """Contents of a recorder's file; ``groups`` maps names to the groups that the recorder knows."""

    entries: tuple[RecorderEntry, ...]
    groups: Mapping[str, RecordedGroup]


def read_dump(data: bytes) -> Dump:
    """Read a whole dump: its unfinished entries, the last completed entry of each group, and the groups."""
    document = _document(data)
    if type(document) is not dict or type(document.get("entries")) is not list:
        raise ValueError("contains no entries of a flight recorder")
    config = document.get("pg_config")
    groups = {}
    for name, one in list(config.items())[:MAX_ENTRIES] if type(config) is dict else ():
        if type(one) is dict:
            groups[_text(name)] = RecordedGroup(title=_text(one.get("desc")), members=_members(one.get("ranks")))
    return Dump(entries=_bounded(_entries(document["entries"])), groups=groups)


def _bounded(entries: list[RecorderEntry]) -> tuple[RecorderEntry, ...]:
    newest = {(entry.group, entry.library): entry for entry in entries}
    kept = entries[:MAX_TOLD]
    there = set(map(id, kept))
    return (*kept, *(entry for entry in list(newest.values())[:MAX_TOLD] if id(entry) not in there))


def _members(ranks: object) -> tuple[int, ...]:
    """Parse a text such as ``[0, 1]``; return () if it is invalid."""
    if type(ranks) is not str or len(ranks) > 20 * MAX_ENTRIES:
        return ()
    parts = ranks.strip("[] ").split(",")
    known = tuple(int(word) for word in parts if word.strip().isdecimal() and len(word) < 12)
    return known if len(known) == len(parts) else ()


def entries_of(dump: bytes) -> list[RecorderEntry]:
    """Return the unfinished entries and the last completed entry of each group, in the order of recording."""
    return _entries(_document(dump).get("entries", []))


def recent_entries(dump: bytes, most: int) -> list[dict[str, Any]]:
    """Return the last ``most`` collectives of each group and library, oldest first; each entry is in torch's format."""
    found: list[dict[str, Any]] = []
    counts: dict[tuple[str, str], int] = {}
    for raw in reversed(_document(dump).get("entries", [])):
        key = _text(raw["process_group"][0]), _text(raw["profiling_name"]).partition(":")[0]
        if not raw.get("is_p2p") and counts.setdefault(key, 0) < most:
            counts[key] += 1
            found.append(raw)
    return found[::-1]


def _document(dump: bytes) -> Any:
    # msgspec reads the JSON of a full recorder, some MiB, within a few milliseconds.
    return msgspec.json.decode(dump) if dump.lstrip()[:1] == b"{" else load_plain(dump)


def _entries(raw: list[dict[str, Any]]) -> list[RecorderEntry]:
    return _chosen([_entry(one) for one in raw[-MAX_ENTRIES:]])


def _entry(raw: dict[str, Any]) -> RecorderEntry:
    group, title = raw["process_group"]
    library, _, name = _text(raw["profiling_name"]).partition(":")
    is_p2p = bool(raw.get("is_p2p"))
    return RecorderEntry(
        group=_text(group),
        title=_text(title),
        library=library,
        name=name,
        state=_text(raw.get("state")),
        is_retired=raw.get("retired") is True,
        is_p2p=is_p2p,
        sequence=_number(raw["p2p_seq_id" if is_p2p else "collective_seq_id"]),
        created=_number(raw.get("time_created_ns") or 0),
        timeout=_number(raw.get("timeout_ms") or 0),
        types=tuple(map(_text, raw.get("input_dtypes", ())[:MAX_INPUTS])),
        inputs=_items(raw.get("input_sizes")),
        stack=_items(raw.get("frames")),
    )


def _text(value: object) -> str:
    """Return a text of a dump, or "" for another type. No value is converted: ``str`` of nested lists may never end."""
    return value[:MAX_NAME] if isinstance(value, str) else ""


def _number(value: object) -> int:
    """Return a number of a dump. JSON dumps contain some numbers as texts."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) <= MAX_DIGITS:
        return int(value)
    raise TypeError("not a number")


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _chosen(entries: list[RecorderEntry]) -> list[RecorderEntry]:
    """Return the unfinished entries, and the last completed entry of each group."""
    kept: list[RecorderEntry] = []
    completed: set[tuple[str, str]] = set()
    batch_has_ended: dict[tuple[str, str], bool] = {}
    for entry in reversed(entries):
        group = entry.group, entry.library
        if entry.name.endswith("coalesced"):
            batch_has_ended[group] = not entry.is_unfinished
        # torch never updates the state of the members of a batch. After its members, the batch has an entry of its own,
        # and torch updates the state of that entry.
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
