"""How much each token may add to the audit log. Pure: time is an argument.

The log keeps a bounded number of bytes. Without shares the holder of one token could do something, and then drive the
entry of it out by a flood of others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from dbg_broker.audit.entries import Entry, What, encode_entry
from dbg_broker.quotas import LruMap, TokenBucket

SHARE_BYTES = 1024 * 1024
"""Bytes of one token that are written at once: some five thousand entries, hours of work in a debugger."""

SHARE_BYTES_PER_SECOND = 1024
"""Bytes of one token a second after that: every key of a typist, with --audit-input. 48 MiB, all that the log keeps,
last for half a day of a flood."""

TELL_SECONDS = 60.0
"""Seconds after which an entry tells how many of a token were left out."""

MAX_TOKENS = 2048
"""Tokens that are told apart: twice as many as a home may have made, so that none of them is forgotten."""

Key = tuple[str, str]
"""Role and name of a token; requests that were refused have a share together."""


class Shares:
    """What passes entries to the log while their token has a share left, and counts the others."""

    def __init__(
        self,
        write: Callable[[Entry], None],
        *,
        clock: Callable[[], float],
        schedule: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Pass entries on to ``write``; ``clock`` is monotonic seconds, ``schedule`` calls after some of them."""
        self._write = write
        self._clock = clock
        self._schedule = schedule
        self._buckets: LruMap[Key, TokenBucket] = LruMap(MAX_TOKENS)
        self._left_out: Counter[Key] = Counter()
        self.lost = 0
        """How many entries have been left out since the start."""

    def note(self, entry: Entry) -> None:
        """Write an entry, or count it; the count becomes an entry after TELL_SECONDS."""
        key = _key_of(entry)
        if key is None or self._spend(key, len(encode_entry(entry))):
            self._write(entry)
            return
        if not self._left_out:
            self._schedule(TELL_SECONDS, self.tell)
        count = max(1, entry.count)
        self._left_out[key] += count
        self.lost += count

    def tell(self) -> None:
        """Write how many entries of each token were left out since this was told."""
        told, self._left_out = self._left_out, Counter()
        for (role, token), count in told.items():
            text = "too many at once"
            self._write(Entry(at=time.time(), what=What.CUT, role=role, token=token, text=text, count=count))

    def _spend(self, key: Key, size: int) -> bool:
        now = self._clock()
        bucket = self._buckets.use(key, lambda: TokenBucket(now, SHARE_BYTES_PER_SECOND, SHARE_BYTES))
        return bucket.take(size, now)


def _key_of(entry: Entry) -> Key | None:
    """Return whose share an entry takes; None for those of the broker and of the commands of its user."""
    if entry.what is What.REFUSE:
        return "", ""
    return (entry.role, entry.token) if entry.role else None
