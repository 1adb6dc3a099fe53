"""Who is there: by heartbeats alone, and by this broker's clock alone."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_broker.cluster.members import GONE_SECONDS, MAX_MEMBERS, Members, Presence, read_presence
from dbg_broker.timers import Timers
from dbg_wire.errors import PeerError
from dbg_wire.records.record import encode_record


def presence(name: str, **changes: Any) -> Presence:
    url = f"wss://{name}:6900"
    return Presence(name=name, url=url, fingerprint="sha256:0", host=name, pid=1, site="ours").replace(**changes)


class Watched:
    """Members with a clock that the test sets, and the changes that they report."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reported: list[str] = []
        timers = Timers(lambda: self.now, lambda _seconds, _call: None)
        note = self.reported.append
        self.members = Members(presence("own"), timers, lambda name: note(f"+{name}"), lambda name: note(f"-{name}"))

    def beat(self, *names: str, seconds: float = 1.0, is_heard: bool = True) -> list[str]:
        """Let time pass, receive these presences, and return the reported changes."""
        self.now += seconds
        for name in names:
            self.members.saw(presence(name))
        self.members.sweep(is_heard=is_heard)
        reported = list(self.reported)
        self.reported.clear()
        return reported


def test_silent_broker_is_removed_and_added_again() -> None:
    watched = Watched()
    assert watched.beat("b", "a") == ["+b", "+a"]
    assert [one.name for one in watched.members.all()] == ["own", "a", "b"]
    reported = [one for _ in range(int(GONE_SECONDS)) for one in watched.beat("a")]
    assert reported == ["-b"]
    assert watched.beat("a", "b") == ["+b"]
    watched.members.left("a")
    assert [one.name for one in watched.members.all()] == ["own", "b"]


def test_no_broker_is_removed_while_nats_is_down_or_after_a_suspension() -> None:
    watched = Watched()
    watched.beat("a")
    for _ in range(10):
        assert watched.beat(is_heard=False) == []
    assert watched.beat(seconds=100.0) == []
    assert watched.beat(seconds=1.0) == []


def test_changed_certificate_is_reported_and_another_site_is_ignored() -> None:
    watched = Watched()
    watched.members.saw(presence("theirs", site="another"))
    watched.members.saw(presence("own"))
    watched.members.saw(presence("a"))
    watched.members.saw(presence("a"))
    watched.members.saw(presence("a", fingerprint="sha256:1"))
    assert watched.reported == ["+a", "+a"]
    assert watched.members.all()[1].address.fingerprint == "sha256:1"


def test_number_of_members_is_bounded() -> None:
    watched = Watched()
    watched.beat(*(f"b{number}" for number in range(MAX_MEMBERS + 5)))
    assert len(watched.members.all()) == MAX_MEMBERS


def test_a_presence_is_read_as_it_was_written() -> None:
    own = Watched().members
    assert read_presence(own.value()) == own.own
    with pytest.raises(PeerError):
        read_presence(b'{"name": 3}')
    assert read_presence(encode_record(presence("x", pid=7)).encode()).pid == 7
