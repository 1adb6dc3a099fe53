"""The caller that a full classic port sends away: first one that shows nothing, then the last of the largest party."""

from __future__ import annotations

import asyncio
import re
import socket
from collections import deque
from collections.abc import Callable
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
from dbg_broker.classic.connection import SLICE_BYTES, CallerTurns
from dbg_broker.classic.sessions import StockSessions, host_name, plain_address, short_name
from dbg_broker.net.tcp import listen
from dbg_broker.timers import Timers
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
    silent = callers(1, 70)[0]
    assert who_goes([*crowd, silent], NEW) is silent


def test_parties_that_fill_the_room_make_place_for_another() -> None:
    crowds = [
        caller
        for party in range(MAX_CALLERS // MAX_CALLERS_OF_ONE)
        for caller in drawn(MAX_CALLERS_OF_ONE, 1 + party * MAX_CALLERS_OF_ONE, party=f"10.0.0.{party}")
    ]
    goes = who_goes(crowds, replace(NEW, party=OURS))
    assert goes is not None
    assert goes.number == MAX_CALLERS_OF_ONE, "the last of the largest party"


class Machine:
    """The clock, the processor and the event loop of a test."""

    def __init__(self, cost: float) -> None:
        self.now = 0.0
        self.used = 0.0
        self.cost = cost
        self.slices: dict[int, int] = {}
        self.order: list[int] = []
        self.due: deque[tuple[float, Callable[[], None]]] = deque()
        self.turns = CallerTurns(
            self.take, Timers(lambda: self.now, lambda s, do: self.due.append((s, do)), spent=lambda: self.used)
        )

    def take(self, number: int) -> tuple[int, bool]:
        self.used += self.cost
        self.now += self.cost
        self.order.append(number)
        self.slices[number] -= 1
        return SLICE_BYTES, self.slices[number] > 0

    def add(self, number: int, slices: int) -> None:
        self.slices[number] = slices
        self.turns.add(number)

    def run(self, until: float) -> None:
        while self.due and self.now < until:
            seconds, do = self.due.popleft()
            self.now += seconds
            do()


def test_a_flood_does_not_delay_who_has_little_to_say() -> None:
    machine = Machine(0.004)
    for number in range(256):
        machine.add(number, 10**9)
    machine.run(30.0)
    machine.add(999, 1)
    before = len(machine.order)
    machine.run(machine.now + 0.2)
    assert 999 in machine.order[before : before + 3]


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


def test_http_is_answered_with_400_in_one_line() -> None:
    answer = answer_to_noise(b"GET / HTTP/1.1\r\n")
    assert answer is not None
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body.count(b"\n") == 1


def test_tls_gets_an_alert() -> None:
    answer = answer_to_noise(b"\x16\x03\x01\x02\x00\x01")
    assert answer is not None
    assert answer[:1] == b"\x15"


@pytest.mark.parametrize("head", [b"\xff\xfb\x1f\xff\xfd\x03", b"\0\0\0\x10", b"\x80\x81\x82"])
def test_telnet_and_junk_get_a_sentence(head: bytes) -> None:
    answer = answer_to_noise(head)
    assert answer is not None
    assert b"stock pudb.remote.set_trace" in answer
    assert answer.endswith(b"\r\n")


@given(st.binary(max_size=200))
def test_anything_is_either_answered_or_let_in(head: bytes) -> None:
    answer = answer_to_noise(head)
    assert answer is None or answer.startswith((b"HTTP/1.1 400 ", b"\x15\x03", b"dbg-broker: "))
