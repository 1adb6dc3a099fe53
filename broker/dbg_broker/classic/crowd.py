"""Who has to go where more stock debuggers call than are taken. Pure.

Whoever is closed gets an error in the middle of the program, so a session that looks real goes for no stranger's sake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

MAX_CALLERS = 256
"""Stock sessions at once: nobody has more scripts without an agent, and each may keep nearly 1 MiB of its screen."""

MAX_CALLERS_OF_ONE = 64
"""Of one address, or of one other user of this host: hosts have up to 16 ranks, and four strangers fill no broker."""

MIN_DRAWN = 512
"""Bytes of the smallest screen that PuDB draws, by half; who has written less is taken for nobody's debugger yet."""

FRESH_SECONDS = 2.0
"""Seconds for which a caller is new: PuDB draws within one."""

OURS = "us"
"""The party of callers who run as the broker's own user on its host: they are no strangers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Hold what is known of a caller: its ``party`` is its address or user, its number grows with the time it came."""

    number: int
    party: str
    drawn: int
    is_listed: bool
    is_attended: bool
    is_fresh: bool
    """Whether it came a moment ago, so that nothing can be expected of it yet."""

    @property
    def is_weak(self) -> bool:
        """Tell whether nothing shows that it is a debugger that somebody needs."""
        return not self.is_attended and self.drawn < MIN_DRAWN


def _worth(caller: Caller) -> tuple[bool, int, int]:
    """Return by what those that are weak are ordered; the first has to go."""
    rank = 1 if caller.is_listed else 2 if caller.is_fresh else 0
    return caller.party == OURS, rank, caller.number


def who_goes(others: Collection[Caller], newcomer: Caller) -> Caller | None:
    """Return the caller that has to go as there is a newcomer, which may be the newcomer itself, or None."""
    sizes = Counter(caller.party for caller in others)
    has_party_too_many = newcomer.party != OURS and sizes[newcomer.party] >= MAX_CALLERS_OF_ONE
    if not has_party_too_many and len(others) < MAX_CALLERS:
        return None
    pool = [caller for caller in others if not has_party_too_many or caller.party == newcomer.party]
    weak = [caller for caller in pool if caller.is_weak]
    if weak:
        return min(weak, key=_worth)
    largest, size = sizes.most_common(1)[0]
    crowd = [caller for caller in others if caller.party == largest and not caller.is_attended]
    if has_party_too_many or largest in (newcomer.party, OURS) or size <= sizes[newcomer.party] + 1 or not crowd:
        return newcomer
    # The last that came: no stranger ends an older session of its own party by calling again and again.
    return max(crowd, key=lambda caller: caller.number)
