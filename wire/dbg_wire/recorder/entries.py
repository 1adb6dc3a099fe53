"""The entries of a flight recorder's dump, JSON or pickle: of this process, or a file that anybody may have written.

Pure. What has another form than torch writes raises one of :data:`WRONG_FORM`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbg_wire.recorder.plain_pickle import load_plain

MAX_ENTRIES = 100_000
"""Entries of a dump that are looked at, the newest ones: a recorder mostly keeps 2000."""

MAX_TOLD = 128
"""Entries of a file that are kept, the oldest of those that count; the newest one of each group is kept as well."""

MAX_NAME = 500
"""Characters of a name in a dump: torch's have some ten, and a name of a group that a program gives may be longer."""

MAX_INPUTS, MAX_DIMENSIONS = 10_000, 64
"""Tensors of one call that count, and dimensions of one, of which torch allows as many."""

MAX_DIGITS = 20
"""Digits of a number that is told as a text: torch's numbers have 64 bits."""

_ENTRY = b'{"collective_seq_id":'
_BEGIN = b'"entries":[' + _ENTRY
_BETWEEN = b"}," + _ENTRY
"""The text between two entries. torch sorts the keys, and no text within an entry holds a quote that is not escaped."""

_MOST_COMPLETED = 64
"""Groups of which the last completed collective is looked for."""


WRONG_FORM = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What is raised for a dump of another form than torch writes; a NotPlain says more than the others."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded collective, or a send or receive; ``created`` is in nanoseconds since 1970, 0 if unknown.

    ``stack`` is what torch has recorded of the call's stack, if it was told to.
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
        """Tell whether the collective has not ended: gloo's entries stay `scheduled`, and are retired at their end."""
        return not self.is_retired and self.state != "completed"

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the inputs; of a full recorder hardly any are asked for."""
        return tuple(tuple(map(_number, shape[:MAX_DIMENSIONS])) for shape in self.inputs[:MAX_INPUTS])


@dataclass(frozen=True, kw_only=True)
class RecordedGroup:
    """A process group as a recorder keeps it; ``members`` are the global ranks in the order of the group."""

    title: str
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Dump:
    """What a file of a recorder tells: ``groups`` by their names, as far as the recorder knows them."""

    entries: tuple[Entry, ...]
    groups: Mapping[str, RecordedGroup]


def read_dump(data: bytes) -> Dump:
    """Return what a whole dump tells: unfinished entries, the last completed one of each group, and the groups."""
    document = json.loads(data) if data.lstrip()[:1] == b"{" else load_plain(data)
    if type(document) is not dict or type(document.get("entries")) is not list:
        raise ValueError("holds no entries of a flight recorder")
    config = document.get("pg_config")
    groups = {}
    for name, one in list(config.items())[:MAX_ENTRIES] if type(config) is dict else ():
        if type(one) is dict:
            groups[_text(name)] = RecordedGroup(title=_text(one.get("desc")), members=_members(one.get("ranks")))
    return Dump(entries=_bounded(_entries(document["entries"])), groups=groups)


def _bounded(entries: list[Entry]) -> tuple[Entry, ...]:
    newest = {(entry.group, entry.library): entry for entry in entries}
    kept = entries[:MAX_TOLD]
    there = set(map(id, kept))
    return (*kept, *(entry for entry in list(newest.values())[:MAX_TOLD] if id(entry) not in there))


def _members(ranks: object) -> tuple[int, ...]:
    """Return the ranks of a text such as ``[0, 1]``."""
    if type(ranks) is not str or len(ranks) > 20 * MAX_ENTRIES:
        return ()
    words = ranks.strip("[] ").split(",")
    known = tuple(int(word) for word in words if word.strip().isdecimal() and len(word) < 12)
    return known if len(known) == len(words) else ()


def entries_of(dump: bytes) -> list[Entry]:
    """Return the unfinished entries and the last completed one of each group, in the order of recording."""
    if not dump.startswith(b"{"):
        return _entries(load_plain(dump).get("entries", []))
    pieces = _pieces(dump)
    return _entries(json.loads(dump).get("entries", []) if pieces is None else _worth_parsing(pieces))


def _entries(raw: list[dict[str, Any]]) -> list[Entry]:
    return _chosen([_entry(one) for one in raw[-MAX_ENTRIES:]])


def _pieces(dump: bytes) -> list[bytes] | None:
    """Return the texts of the entries in JSON, the newest first, without begin and end; None for another form."""
    begin = dump.find(_BEGIN)
    return None if begin < 0 else dump[begin + len(_BEGIN) :].split(_BETWEEN)[::-1]


def _parsed(piece: bytes) -> dict[str, Any]:
    # Behind the last entry stands the rest of the dump.
    entry: dict[str, Any] = json.JSONDecoder().raw_decode((_ENTRY + piece + b"}").decode())[0]
    return entry


def _worth_parsing(pieces: list[bytes]) -> list[dict[str, Any]]:
    """Parse the entries that may count: to parse all of a full buffer would take as long as to build the dump."""
    chosen: list[dict[str, Any]] = []
    seen: set[bytes] = set()
    for piece in pieces:
        group = _field(piece, b'"process_group":["')
        is_ended = b'"retired":true' in piece or b'"state":"completed"' in piece
        if is_ended and not _is_coalesced(piece) and (group in seen or len(seen) >= _MOST_COMPLETED):
            continue
        if is_ended and b'"is_p2p":true' not in piece:
            seen.add(group)
        chosen.append(_parsed(piece))
    chosen.reverse()
    return chosen


def recent_entries(dump: bytes, most: int) -> list[dict[str, Any]]:
    """Return the last ``most`` collectives of each group and library as torch has them, the oldest first."""
    pieces = _pieces(dump)
    found: list[dict[str, Any]] = []
    counts: dict[tuple[bytes, bytes], int] = {}
    if pieces is None:
        whole = json.loads(dump) if dump.startswith(b"{") else load_plain(dump)
        for raw in reversed(whole.get("entries", [])):
            key = _text(raw["process_group"][0]).encode(), _text(raw["profiling_name"]).partition(":")[0].encode()
            if not raw.get("is_p2p") and counts.setdefault(key, 0) < most:
                counts[key] += 1
                found.append(raw)
        return found[::-1]
    for piece in pieces:
        key = _field(piece, b'"process_group":["'), _field(piece, b'"profiling_name":"').partition(b":")[0]
        if b'"is_p2p":true' in piece or counts.setdefault(key, 0) >= most:
            continue
        counts[key] += 1
        found.append(_parsed(piece))
    return found[::-1]


def _is_coalesced(piece: bytes) -> bool:
    # Members of a batch are told to have ended by the entry of the batch behind them.
    return b'coalesced"' in piece


def _field(piece: bytes, before: bytes) -> bytes:
    begin = piece.find(before)
    return piece[begin : piece.find(b'"', begin + len(before))] if begin >= 0 else b""


def _entry(raw: dict[str, Any]) -> Entry:
    group, title = raw["process_group"]
    library, _, name = _text(raw["profiling_name"]).partition(":")
    is_p2p = bool(raw.get("is_p2p"))
    return Entry(
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
    """Return a text of a dump. What is none is not made one: the text of a list of lists may have no end."""
    return value[:MAX_NAME] if isinstance(value, str) else ""


def _number(value: object) -> int:
    """Return a number of a dump; some of JSON's are texts."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) <= MAX_DIGITS:
        return int(value)
    raise TypeError("no number")


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


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
