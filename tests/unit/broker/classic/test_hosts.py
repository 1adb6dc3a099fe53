"""Names of stock sessions: the host, and a number that a session keeps as long as it lives."""

from __future__ import annotations

import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic.sessions import SessionNumbers, host_name, plain_address, short_name
from dbg_wire.finding.endpoint import is_loopback_host
from dbg_wire.targets.grammar import Classic, parse_target


def test_numbers_count_for_each_host_and_come_back() -> None:
    marks = SessionNumbers()
    assert [marks.take("a"), marks.take("a"), marks.take("b"), marks.take("a")] == [1, 2, 1, 3]
    marks.give_back("a", 2)
    assert [marks.take("a"), marks.take("a")] == [2, 4]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"])
def test_loopback_is_this_host(address: str) -> None:
    assert is_loopback_host(address)
    assert host_name(address, "login1.cluster.example") == "login1"


@pytest.mark.parametrize("address", ["10.0.0.1", "::", "localhost.evil.example", "127.0.0.1.evil.example", ""])
def test_what_is_elsewhere_is_no_loopback(address: str) -> None:
    assert not is_loopback_host(address)


def test_a_host_without_a_name_is_called_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody_knows(_address: object, _flags: int) -> tuple[str, str]:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getnameinfo", nobody_knows)
    assert host_name("192.0.2.7", "login1") == "192.0.2.7"
    assert host_name("2001:db8::7", "login1") == "2001-db8--7"


def test_a_hostile_name_can_not_leave_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getnameinfo", lambda _address, _flags: ("x\x1b[2J/all:*.evil", "0"))
    assert host_name("192.0.2.7", "login1") == "x--2J-all--"


@given(st.text(max_size=100))
def test_any_name_can_stand_in_a_target(name: str) -> None:
    for host in (short_name(name), plain_address(name) or "x"):
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,63}", host)
    assert parse_target(f"{short_name('gpu' + name)}:?1").include[0].what == Classic("?1")
