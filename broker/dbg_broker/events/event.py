"""An event, and the document in which a command gets it. Pure."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place

MAX_SENTENCE = 500
"""Characters of a sentence: a message to a phone, and no more of a rank's exception than that needs."""

MAX_NAMED = 2000
"""Characters of a rank set or a path: the document stays far below the 64 KiB that a pipe takes at once."""


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
    type now.
    """

    kind: EventKind
    at: float
    sentence: str
    job: str = ""
    ranks: str = ""
    address: str = ""
    where: Place | None = None
    next: str = ""


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
    return json.dumps(told).encode() + b"\n"
