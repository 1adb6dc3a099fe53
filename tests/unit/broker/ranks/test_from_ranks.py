"""Pulses: nobody reads one that nobody looks at, and what is asked for is read and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks import rank_record
from dbg_broker.ranks.from_ranks import PULSE_BEGINS
from dbg_broker.ranks.liveness import ProbeIntervals
from dbg_broker.relay import receiver
from dbg_broker.terminals import terminals
from dbg_wire import limits
from dbg_wire.codec import decode, encode
from dbg_wire.messages import (
    Action,
    Answers,
    Change,
    Gone,
    Message,
    ProbeReply,
    Question,
    RankAnswer,
    Refusal,
    RefusalCode,
    Seat,
    Sender,
    Snapshot,
    Subscribe,
    Viewers,
)
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import decode_record
from tests.support.answers import answers_of
from tests.support.time_unit import seconds
from tests.unit.broker.peers import RUNNING, STOP, WHERE, Broker, Peer, attach, registration, running_broker

KEY = registration().identity.key
PULSE = ProbeReply(where=WHERE, frames=(STOP.where, WHERE))
OTHER_ORDER = '{"where": null, "type": "probe_reply"}'


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return which texts of ranks the broker reads, at once or later."""
    texts: list[str] = []

    def at_once(text: str, sender: Sender) -> Message:
        if sender is Sender.AGENT:
            texts.append(text)
        return decode(text, sender)

    def later(kind: type[Message], text: str) -> object:
        texts.append(text)
        return decode_record(kind, text)

    monkeypatch.setattr(receiver, "decode", at_once)
    monkeypatch.setattr(rank_record, "decode_record", later)
    return texts


async def send_texts(rank: Peer, *texts: str) -> None:
    """Send texts as a rank, and return when the broker has received them."""
    for text in texts:
        await rank.websocket.send(text)
    await (await rank.websocket.ping())


async def where(broker: Broker) -> RankAnswer:
    """Return the broker's answer for the place of a rank whose connection is lost."""
    terminal = await broker.terminal()
    await terminal.send(Question(request=1, keys=(KEY,), action=Action.WHERE, seconds=1.0))
    (answer,) = answers_of(await terminal.expect(Answers))
    return answer


async def test_pulses_of_an_unwatched_rank_are_never_read(broker: Broker, read: list[str]) -> None:
    rank = await broker.rank(report=RUNNING)
    read.clear()
    listed = broker.parts.ranks.registry.find(KEY)
    assert listed is not None
    before = listed.heard
    await send_texts(rank, *[encode(PULSE)] * 10)
    assert read == []
    assert listed.heard > before


async def test_pulse_of_a_watched_rank_or_in_another_form_is_read_at_once(broker: Broker, read: list[str]) -> None:
    rank = await broker.rank(report=RUNNING)
    read.clear()
    await send_texts(rank, OTHER_ORDER)
    driver = await broker.seated(KEY)
    await send_texts(rank, encode(PULSE))
    assert await driver.expect(ProbeReply) == PULSE
    assert read == [OTHER_ORDER, encode(PULSE)]


@pytest.mark.parametrize(
    "wrong",
    [
        PULSE_BEGINS,
        f'{PULSE_BEGINS},"where":7}}',
        f'{PULSE_BEGINS},"where":null,"frames":[{{"file":"\\ud800","line":1,"function":"f"}}]}}',
        f'{PULSE_BEGINS},"type":"goodbye","where":null}}',
    ],
)
async def test_invalid_pulse_gives_no_stack_and_ends_a_watched_connection(broker: Broker, wrong: str) -> None:
    rank = await broker.rank(report=RUNNING)
    await send_texts(rank, wrong)
    await rank.cut()
    await broker.left(lambda parts: not parts.ranks.links)
    assert (await where(broker)).frames == ()
    again = await broker.rank(report=RUNNING)
    await broker.seated(KEY)
    await again.websocket.send(wrong)
    assert (await again.closed())[0] == CloseCode.BAD_MESSAGE


@pytest.fixture
async def broker_silences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """Run a broker whose times of silence are a twentieth of the real ones, in the tests' unit of time."""
    monkeypatch.setattr(terminals, "CHECK_SECONDS", seconds(0.05))
    monkeypatch.setattr(terminals, "PING_SECONDS", seconds(0.125))
    monkeypatch.setattr(terminals, "SEAT_SECONDS", seconds(1.25))
    monkeypatch.setattr(limits, "SILENT_SECONDS", seconds(0.225))
    async with running_broker(tmp_path) as running:
        yield running


async def listing(broker_silences: Broker) -> Peer:
    terminal = await broker_silences.terminal("list@h")
    await terminal.send(Subscribe())
    return terminal


async def test_vanished_driver_is_listed_as_silent_and_loses_the_seat(broker_silences: Broker) -> None:
    await broker_silences.rank()
    driver = await broker_silences.seated(KEY, "gone@h")
    watcher = await broker_silences.seated(KEY, "here@h")
    driver.websocket.transport.pause_reading()
    silent = await watcher.expect(Change, lambda change: change.rank.driver_silent)
    assert silent.rank.driver == "gone@h"
    freed = await watcher.expect(Seat, lambda seat: seat.driver is None)
    assert freed.watchers == 1
    await watcher.send(attach(KEY))
    assert (await watcher.expect(Seat, lambda seat: seat.generation is not None)).driver == "here@h"


async def test_newer_connection_of_a_rank_takes_over_and_keeps_its_driver(broker_silences: Broker) -> None:
    old = await broker_silences.rank()
    driver = await broker_silences.seated(KEY)
    before = broker_silences.parts.relay.seats.viewers_message(KEY, 0).generation
    new = await broker_silences.rank()
    assert (await old.closed())[0] == 4000
    seat = await driver.expect(Seat)
    assert (seat.generation, seat.rank.state) == (before, RankState.STOPPED)
    await new.send(ProbeReply(where=WHERE))
    await driver.expect(ProbeReply)


KERNEL = "boot/4026531836"


@pytest.fixture
async def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """Run a broker that probes and sweeps more often, on the same kernel as its ranks."""
    intervals = ProbeIntervals(attended=seconds(0.05), idle=seconds(0.2))
    async with running_broker(tmp_path, intervals=intervals, kernel=KERNEL) as running:
        yield running


async def state(broker: Broker, wanted: RankState) -> None:
    """Subscribe, and wait for rank 0 to be in a state, by the snapshot or a change."""
    terminal = await broker.terminal("list@h")
    await terminal.send(Subscribe())
    known: dict[str, RankState] = {}
    while known.get(KEY) is not wanted:
        message = await terminal.next()
        if isinstance(message, Snapshot):
            known.update((rank.key, rank.state) for rank in message.ranks)
        elif isinstance(message, Change):
            known[message.rank.key] = message.rank.state


async def test_rank_without_probe_replies_is_unresponsive_until_it_replies(quick: Broker) -> None:
    rank = await quick.rank()
    driver = await quick.seated(KEY)
    silent = await driver.expect(Change, lambda change: change.rank.state is RankState.UNRESPONSIVE)
    assert silent.rank.where == WHERE
    await rank.send(ProbeReply(where=WHERE))
    back = await driver.expect(Change, lambda change: change.rank.state is not RankState.UNRESPONSIVE)
    assert back.rank.state is RankState.STOPPED
    assert back.rank.since < silent.rank.since


async def test_forgotten_rank_leaves_lists_and_terminals(quick: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = await quick.rank()
    listing = await quick.terminal("list@h")
    await listing.send(Subscribe())
    driver = await quick.seated(KEY)
    await rank.cut()
    await driver.expect(Change, lambda change: change.rank.state is RankState.LOST)
    monkeypatch.setattr(limits, "ENDED_RANK_SECONDS", 0.0)
    assert (await listing.expect(Gone)).key == KEY
    assert (await driver.expect(Refusal)).code == RefusalCode.GONE
    await driver.send(attach(KEY))
    assert (await driver.expect(Refusal)).code == RefusalCode.NO_SUCH_RANK


async def test_only_the_rank_with_a_too_long_stack_is_closed(broker: Broker) -> None:
    other, heavy = await broker.rank(0), await broker.rank(1)
    # The longest stack that an agent sends is kept.
    await heavy.send(ProbeReply(where=WHERE, frames=(WHERE,) * limits.MAX_STACK_FRAMES))
    deep = WHERE.replace(file="/" + "x" * 4000)
    await heavy.send(ProbeReply(where=WHERE, frames=(deep,) * limits.MAX_STACK_FRAMES))
    assert (await heavy.closed())[0] == CloseCode.BAD_MESSAGE
    await broker.seated(registration(0).identity.key)
    await other.expect(Viewers, lambda viewers_message: viewers_message.driven)
