"""Which caller is closed when more stock debuggers call than the broker takes. Pure.

A closed connection is an error in the middle of a program, so a session that looks real is not closed for a stranger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

MAX_CALLERS = 256
"""Stock sessions at once: no user has more scripts without an agent, and each may keep nearly 1 MiB of its screen."""

MAX_CALLERS_OF_ONE = 64
"""Sessions of one address or of one other user of this host: a host has up to 16 ranks, and it takes four strangers to
fill all places."""

MIN_DRAWN = 512
"""Half the bytes of the smallest screen that PuDB draws; a caller that has written less has shown no debugger yet."""

FRESH_SECONDS = 2.0
"""Seconds for which a caller is new: PuDB draws within one."""

OURS = "us"
"""The party of callers that run as the broker's own user on its host: they are no strangers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What is known of a caller: ``party`` is its address or user; a later caller has a higher ``number``."""

    number: int
    party: str
    drawn: int
    is_listed: bool
    is_attended: bool
    is_fresh: bool
    """Whether it came a moment ago, so that nothing can be expected of it yet."""

    @property
    def is_weak(self) -> bool:
        """Tell whether nothing shows that the caller is a debugger in use."""
        return not self.is_attended and self.drawn < MIN_DRAWN


def _worth(caller: Caller) -> tuple[bool, int, int]:
    """Return the sort key of weak callers: the caller with the lowest is closed first."""
    rank = 1 if caller.is_listed else 2 if caller.is_fresh else 0
    return caller.party == OURS, rank, caller.number


def who_goes(others: Collection[Caller], newcomer: Caller) -> Caller | None:
    """Return the caller to close for a newcomer, which may be the newcomer itself, or None if there is room."""
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
    # The last caller goes, so that a stranger can't end older sessions of its party by calling again and again.
    return max(crowd, key=lambda caller: caller.number)
