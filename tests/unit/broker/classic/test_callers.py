"""The caller that a full classic port sends away: first one that shows nothing, then the last of the largest party."""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.classic import connection
from dbg_broker.classic.callers import (
    MAX_CALLERS,
    MAX_CALLERS_OF_ONE,
    MIN_DRAWN,
    OURS,
    Caller,
    answer_to_noise,
    who_goes,
)
from dbg_broker.classic.sessions import StockSessions, host_name, plain_address, short_name
from dbg_broker.net.tcp import listen
from dbg_wire.finding.endpoint import is_loopback_host
from dbg_wire.messages import Change, Subscribe
from dbg_wire.records.ranks import RankState
from dbg_wire.targets.grammar import Classic, parse_target
from tests.support.time_unit import seconds
from tests.unit.broker.peers import SECONDS, running_broker

NEW = Caller(number=1000, party="10.0.0.9", drawn=0, is_listed=False, is_attended=False, is_fresh=True)


def callers(count: int, first: int = 1, **changes: object) -> list[Caller]:
    known = replace(NEW, is_fresh=False, **changes)  # type: ignore[arg-type]
    return [replace(known, number=first + number) for number in range(count)]


def drawn(count: int, first: int = 1, **changes: object) -> list[Caller]:
    return callers(count, first, **{"drawn": MIN_DRAWN, "is_listed": True, **changes})


def test_the_silent_go_before_the_thin_and_these_before_those_that_just_came() -> None:
    silent, thin, fresh = callers(1, 30)[0], callers(1, 20, is_listed=True)[0], replace(NEW, number=10)
    full = drawn(MAX_CALLERS, 100)
    assert who_goes([*full, fresh, thin, silent], NEW) is silent
    assert who_goes([*full, fresh, thin], NEW) is thin
    assert who_goes([*full, fresh], NEW) is fresh


def test_strangers_go_before_our_own() -> None:
    mine, theirs = callers(1, 1, party=OURS)[0], callers(1, 2)[0]
    assert who_goes([mine, theirs, *drawn(MAX_CALLERS, 100)], NEW) is theirs


def test_one_party_has_a_part_of_the_room() -> None:
    crowd = drawn(MAX_CALLERS_OF_ONE)
    assert who_goes(crowd, NEW) is NEW
    assert who_goes(crowd, replace(NEW, party="10.0.0.8")) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"])
def test_loopback_is_this_host(address: str) -> None:
    assert is_loopback_host(address)
    assert host_name(address, "login1.cluster.example") == "login1"


def test_a_hostile_name_can_not_leave_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getnameinfo", lambda _address, _flags: ("x\x1b[2J/all:*.evil", "0"))
    assert host_name("192.0.2.7", "login1") == "x--2J-all--"


@given(st.text(max_size=100))
def test_any_name_can_stand_in_a_target(name: str) -> None:
    for host in (short_name(name), plain_address(name) or "x"):
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,63}", host)
    assert parse_target(f"{short_name('gpu' + name)}:?1").include[0].what == Classic("?1")


SHORT = seconds(1)
"""Seconds that suffice for the real debugger to connect and be seen, also on a busy machine."""


async def test_who_shows_no_debugger_is_closed_and_who_does_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENCE_SECONDS", SHORT)
    async with running_broker(tmp_path) as broker:
        classic = StockSessions(broker.hub, asyncio.get_running_loop())
        listener = listen("127.0.0.1", 0)
        await classic.listen(listener)
        terminal = await broker.terminal()
        await terminal.say(Subscribe())
        port = listener.getsockname()[1]
        (_, real), (silent, first), (chatty, second) = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(3)
        ]
        real.write(b"\x1b[?1049h\x1b[HPuDB")
        second.write(b"hello\n")
        await terminal.expect(Change, lambda change: change.rank.state is RankState.STOPPED)
        for reader in (silent, chatty):
            assert (await asyncio.wait_for(reader.read(), SECONDS)).startswith(b"dbg-broker: ")
        assert len(classic) == 1
        for writer in (real, first, second):
            writer.close()
            await writer.wait_closed()
        await classic.stop()


@pytest.mark.parametrize(
    "head", [b"", b"G", b"\xe6\x97", b"\x1b[?1049h\x1b)0", "épochs\n".encode(), b"GETTING there\n"]
)
def test_what_may_be_a_debugger_is_let_in(head: bytes) -> None:
    assert answer_to_noise(head) is None


@given(st.binary(max_size=200))
def test_anything_is_either_answered_or_let_in(head: bytes) -> None:
    answer = answer_to_noise(head)
    assert answer is None or answer.startswith((b"HTTP/1.1 400 ", b"\x15\x03", b"dbg-broker: "))
