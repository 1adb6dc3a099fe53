"""An event, what it says to people, and the document in which a command gets it. Pure."""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.errors import printable
from dbg_wire.messages import Hang
from dbg_wire.records.ranks import Place, RankState, signal_name
from dbg_wire.targets.rank_set import format_ranks

MAX_SENTENCE = 500
"""Characters of a sentence: a message to a phone, and no more of a rank's exception than that needs."""

MAX_NAMED = 2000
"""Characters of a rank set or a path: the document stays far below the 64 KiB that a pipe takes at once."""

MINUTE = 60.0


class EventKind(str, enum.Enum):
    """What has happened."""

    STOP = "stop"
    """The first rank of a run has stopped."""
    CRASH = "crash"
    """A rank has raised an exception that nothing caught, was killed, or ended with a status other than 0."""
    HANG = "hang"
    """``why`` names a culprit, or ``run --hang-after`` has seen that no rank moves."""
    LEASE = "lease"
    """A stop ends by itself soon."""
    REFUSED = "refused"
    """A request came with a wrong token, or with none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. ``at`` is in seconds since the epoch.

    ``ranks`` is a rank set of ``job``, ``address`` the first of these ranks, or where a refused request came from.
    ``where`` is the place in that rank's program, ``sentence`` tells all for people, and ``next`` is the command to
    type now. ``broker`` is the name of the broker that tells it, empty without a cluster.
    """

    kind: EventKind
    at: float
    sentence: str
    job: str = ""
    ranks: str = ""
    address: str = ""
    where: Place | None = None
    next: str = ""
    broker: str = ""


def document(event: Event, left_out: int = 0) -> bytes:
    """Return the JSON document of an event on one line, in ASCII: all its texts are printable.

    ``left_out`` is how many events before this one were not told.
    """
    where = event.where
    place = (
        {"file": printable(where.file, MAX_NAMED), "line": where.line, "function": printable(where.function, MAX_NAMED)}
        if where is not None and where.file
        else None
    )
    told = {
        "schema": 1,
        "event": event.kind.value,
        "at": round(event.at, 3),
        "job": printable(event.job, MAX_NAMED) or None,
        "ranks": printable(event.ranks, MAX_NAMED) or None,
        "address": printable(event.address, MAX_NAMED) or None,
        "where": place,
        "sentence": printable(event.sentence, MAX_SENTENCE),
        "next": printable(event.next, MAX_NAMED) or None,
        "left_out": left_out,
    }
    if event.broker:
        told["broker"] = event.broker
    return json.dumps(told).encode() + b"\n"


class RankSnapshot:
    """A rank when something happened to it: its record goes on to change."""

    def __init__(self, rank: RankRecord) -> None:
        self.rank = rank
        self._stop = rank.report.stop if rank.state is not RankState.EXITED else None

    @property
    def where(self) -> Place | None:
        """Return the place of the stop, or the last one that is known."""
        if self._stop is not None:
            return self._stop.where
        return self.rank.frames[-1] if self.rank.frames else None

    @property
    def is_kept(self) -> bool:
        """Tell whether a debugger can still be opened on it."""
        return self._stop is not None

    @property
    def error(self) -> str:
        """Return what ended it, as far as that is known."""
        if self._stop is None:
            return self.rank.end.detail
        return self._stop.detail.removesuffix(self._stop.limit).removesuffix("; ")

    @property
    def left(self) -> float:
        """Return for how many seconds its lease lasted then."""
        return (self._stop.lease_seconds if self._stop is not None else None) or 0.0

    @property
    def way(self) -> str:
        """Return in which way it has failed."""
        status = self.rank.end.exit
        if self._stop is not None or status is None:
            return "crashed"
        return f"ended with status {status}" if status >= 0 else f"was killed by {signal_name(-status)}"


def of_ranks(kind: EventKind, seen: Sequence[RankSnapshot], at: float) -> Event:
    """Return the event that has happened to these ranks of one run."""
    first, job = seen[0], seen[0].rank.identity.job
    others = len(seen) - 1
    also = f", and {others} other {'rank' if others == 1 else 'ranks'}" if others else ""
    address = first.rank.address
    return Event(
        kind=kind,
        at=at,
        sentence=f"{address} of job {job} {_what(kind, first)}{also}",
        job=job,
        ranks=format_ranks({one.rank.identity.rank for one in seen}),
        address=address,
        where=first.where,
        next=f"dbg-attach {job}/{address}" if first.is_kept else "dbg-attach list --all",
    )


def hang(message: Hang, says: str, at: float) -> Event:
    """Return the event of a verdict that ``says`` has told, empty for the user.

    What to type comes from the broker alone, since whoever may drive one job could have others run anything.
    """
    told_by = f", as {says} says" if says else ""
    return Event(
        kind=EventKind.HANG,
        at=at,
        sentence=f"job {message.job} hangs{told_by}: {message.sentence}",
        job=message.job,
        ranks=message.ranks,
        next=f"dbg-attach why {message.job}/all",
    )


def refused(host: str, why: str, at: float) -> Event:
    """Return the event of a refused request."""
    said = f"a request from {host} was refused: {why.strip()}"
    return Event(kind=EventKind.REFUSED, at=at, sentence=said, address=host, next="dbg-broker log")


def _what(kind: EventKind, seen: RankSnapshot) -> str:
    if kind is EventKind.LEASE:
        left = seen.left
        return f"goes on by itself in {f'{left / MINUTE:.0f} min' if left >= 2 * MINUTE else f'{left:.0f} s'}"
    place = seen.where
    at = f" at {place.file}:{place.line} in {place.function}" if place is not None and place.file else ""
    if kind is EventKind.STOP:
        return f"stopped{at}"
    return f"{seen.way}{at}{f': {seen.error}' if seen.error else ''}"
