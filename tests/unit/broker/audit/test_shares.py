"""How much each token may add to the audit log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dbg_broker.audit import writer
from dbg_broker.audit.entries import encode_entry
from dbg_broker.audit.writer import MAX_TOKENS, QUOTA_BYTES, QUOTA_BYTES_PER_SECOND, REPORT_SECONDS, LogQuota
from dbg_broker.timers import Timers
from dbg_wire.records.audit import Entry, What


class Log:
    """What was written, and a clock that stands until it is set."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now = 0.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.quota = LogQuota(
            self.entries.append,
            Timers(lambda: self.now, lambda seconds, call: self.later.append((seconds, call))),
        )

    def flood(self, token: str, count: int = 10_000) -> int:
        """Note the same entry over and over; return how many of them were written."""
        before = len(self.entries)
        for _ in range(count):
            self.quota.note(asked(token))
        return len(self.entries) - before


def asked(token: str, **changes: object) -> Entry:
    said = {"at": 1.0, "what": What.QUESTION, "role": "watcher", "token": token, "text": "x" * 100, **changes}
    return Entry(**said)  # type: ignore[arg-type]


SIZE = len(encode_entry(asked("alice")))


def test_one_tokens_flood_leaves_room_and_is_told_as_a_count() -> None:
    log = Log()
    assert log.flood("alice") == QUOTA_BYTES // SIZE
    # Others, this user's own commands and the broker go on.
    own = Entry(at=1.0, what=What.TOKEN_REVOKED, text="alice")
    for entry in (asked("bob"), asked("alice", role="driver"), own):
        log.quota.note(entry)
        assert log.entries[-1] == entry
    ((seconds, tell),) = log.later
    tell()
    cut = log.entries[-1]
    assert (seconds, cut.what, cut.role, cut.token) == (REPORT_SECONDS, What.CUT, "watcher", "alice")
    assert cut.count == log.quota.lost == 10_000 - QUOTA_BYTES // SIZE


def test_a_share_comes_back_slowly_and_is_never_more_than_one() -> None:
    log = Log()
    log.flood("alice")
    log.now = 10.0 * SIZE / QUOTA_BYTES_PER_SECOND
    assert log.flood("alice") == 10
    log.now += 1e9
    assert log.flood("alice") == QUOTA_BYTES // SIZE


def test_refused_requests_of_all_addresses_share_one() -> None:
    log = Log()
    for number in range(20_000):
        log.quota.note(Entry(at=1.0, what=What.REFUSE, address=f"[2001:db8::{number:x}]:1", text="x" * 100, count=2))
    assert len(log.entries) < 10_000
    log.later[0][1]()
    assert log.entries[-1].count == log.quota.lost == 2 * (20_000 - (len(log.entries) - 1))


def test_only_so_many_tokens_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "QUOTA_BYTES", SIZE + 10)
    log = Log()
    for number in range(MAX_TOKENS + 10):
        log.quota.note(asked(f"t{number}"))
    assert len(log.entries) == MAX_TOKENS + 10
    log.quota.note(asked(f"t{MAX_TOKENS + 9}"))
    assert log.quota.lost == 1
    log.quota.note(asked("t0"))
    assert log.quota.lost == 1
