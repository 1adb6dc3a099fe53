"""How far the clocks of hosts are apart, as bounds that hold whatever the network does. Pure.

Two things bound a host's clock. A question to a rank is answered after it was asked and before the answer came, by the
terminal's own clock (the bound of Cristian's algorithm). And nobody leaves a collective before its last rank has come:
whatever was known to have ended on one host had been entered on all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SWEEPS = 2
"""Times that all collectives are gone through: the bounds of one host narrow those of another."""


class RoundTrip(NamedTuple):
    """A question for a host's clock: asked and answered by the terminal's clock, in microseconds."""

    asked: int
    answered: int
    clock: int


class Passage(NamedTuple):
    """One collective: by its own clock when the last rank of each host came, and when one of it was known to be out."""

    came: Mapping[str, int]
    ended: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Shift:
    """By how many microseconds a host's clock is ahead of the reference: from ``low`` to ``high``."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Return what is taken; 0 if one side is not bounded."""
        return (self.low + self.high) / 2 if math.isfinite(self.high - self.low) else 0.0

    @property
    def looseness(self) -> float:
        """Return by how much the middle may be wrong, infinite if nothing is known."""
        return (self.high - self.low) / 2 if self.low <= self.high else math.inf


UNKNOWN = Shift(-math.inf, math.inf)


def align(
    hosts: Iterable[str], trips: Mapping[str, Sequence[RoundTrip]], passages: Sequence[Passage] = ()
) -> dict[str, Shift]:
    """Return the shift of each host against the terminal's clock, or against the first host's without any round trip.

    Bounds that contradict each other, as of a clock that was set meanwhile, are as good as none.
    """
    names = list(dict.fromkeys(hosts))
    if len(names) < 2:
        # Ranks of one host read one clock, and need no other.
        return dict.fromkeys(names, Shift(0.0, 0.0))
    low, high = {}, {}
    for host in names:
        asked = [(trip.clock - trip.answered, trip.clock - trip.asked) for trip in trips.get(host, ())]
        low[host] = max((least for least, _ in asked), default=-math.inf)
        high[host] = min((most for _, most in asked), default=math.inf)
    if not any(trips.get(host) for host in names):
        low[names[0]] = high[names[0]] = 0.0
    for _ in range(SWEEPS if passages else 0):
        for passage in passages:
            _narrow(passage, low, high)
    return {host: Shift(low[host], high[host]) if low[host] <= high[host] else UNKNOWN for host in names}


def _narrow(passage: Passage, low: dict[str, float], high: dict[str, float]) -> None:
    """Narrow the bounds of all hosts by one collective, in a time that is linear in them."""
    # By the reference the first was out no later than this, and the last came no earlier than that.
    out = min((at - low[host] for host, at in passage.ended.items() if host in low), default=math.inf)
    came = max((at - high[host] for host, at in passage.came.items() if host in high), default=-math.inf)
    if math.isfinite(out):
        for host, at in passage.came.items():
            low[host] = max(low[host], at - out)
    if math.isfinite(came):
        for host, at in passage.ended.items():
            high[host] = min(high[host], at - came)
