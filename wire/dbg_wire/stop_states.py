"""What a rank says of the stops that its job was started with, in the rows of an answer.

The first row is a marker, by which a terminal tells an answer about stops from that of an older rank, which knows
nothing of the question. Each further row is a JSON list: stop, line, whether it is armed, hits, problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .errors import PeerError

MARKER = "stops"


@dataclass(frozen=True, slots=True)
class StopState:
    """Hold what became of one stop in one rank.

    ``stop`` is as it was typed. ``line`` is where it is placed, None if it isn't or has no line. A stop is ``armed``
    once the code that holds it is loaded; ``hits`` counts how often the program was there with a true condition.
    ``problem`` says why it can't be armed or doesn't stop, empty if nothing is wrong.
    """

    stop: str
    line: int | None
    armed: bool
    hits: int
    problem: str = ""


def encode_states(states: Iterable[StopState]) -> tuple[str, ...]:
    """Return the rows of an answer."""
    rows = (json.dumps([one.stop, one.line, one.armed, one.hits, one.problem]) for one in states)
    return (MARKER, *rows)


def decode_states(rows: Sequence[str]) -> list[StopState] | None:
    """Return the states of an answer, None if it is that of an older rank. Raises PeerError for rows without states."""
    if not rows or rows[0] != MARKER:
        return None
    return [_decode(row) for row in rows[1:]]


def _decode(row: str) -> StopState:
    try:
        stop, line, armed, hits, problem = json.loads(row)
    except (ValueError, TypeError, RecursionError):
        raise PeerError("the state of a stop that can't be read") from None
    kinds = (type(stop), type(armed), type(hits), type(problem))
    if kinds != (str, bool, int, str) or type(line) not in (int, type(None)):
        raise PeerError("the state of a stop that can't be read")
    return StopState(stop, line, armed, hits, problem)
