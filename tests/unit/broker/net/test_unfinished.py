"""Incomplete messages: the broker keeps a bounded number of their bytes, for a bounded time."""

from __future__ import annotations

import asyncio

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net import connections, websocket
from dbg_broker.net.websocket import MAX_UNFINISHED_BYTES, MESSAGE_SECONDS, Unfinished
from dbg_wire import limits
from dbg_wire.codec import Output
from tests.unit.broker.peers import Broker, Peer, registration

KEY = registration().identity.key
PART = 512 * limits.KIB


def test_a_message_has_its_own_time_from_where_it_begins() -> None:
    messages = Unfinished()
    messages.note(1, 10, 0.0, is_new=False)
    messages.note(2, 10, 1.0, is_new=False)
    messages.note(1, 20, 2.0, is_new=False)
    assert messages.overdue(MESSAGE_SECONDS - 0.1) == []
    assert messages.overdue(MESSAGE_SECONDS) == [1]
    messages.note(1, 20, 3.0, is_new=True)
    assert messages.overdue(MESSAGE_SECONDS + 1) == [2]
    messages.note(2, 0, 4.0, is_new=True)
    assert messages.size == 20
    messages.drop(1)
    messages.drop(1)
    assert (messages.size, messages.overdue(1e9), messages.heaviest()) == (0, [], None)


def test_who_keeps_most_goes() -> None:
    messages = Unfinished()
    messages.note(1, 1000, 0.0, is_new=False)
    for number in range(2, 66):
        messages.note(number, limits.MIB - number, 1.0, is_new=False)
    assert messages.heaviest() is None
    messages.note(1, limits.MIB, 2.0, is_new=False)
    assert messages.size > MAX_UNFINISHED_BYTES
    assert messages.heaviest() == 1


async def send_part(peer: Peer, size: int) -> None:
    """Send the first ``size`` bytes of a message whose header announces the largest size allowed."""
    whole = Frame(Opcode.TEXT, bytes(limits.MAX_FRAME_BYTES)).serialize(mask=True)
    peer.websocket.transport.write(whole[:size])
    await asyncio.sleep(0)


async def test_a_message_that_never_ends_is_closed_with_a_sentence(
    any_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MESSAGE_SECONDS", 0.2)
    monkeypatch.setattr(connections, "MESSAGE_SECONDS", 0.2)
    slow, honest = await any_broker.rank(0), await any_broker.rank(1)
    terminal = await any_broker.seated(registration(1).identity.key)
    await send_part(slow, PART)
    assert await slow.closed() == (4001, "a message was not complete within 0.2 s")
    piece = Output(session=1, offset=0, data=b"drawn")
    await honest.send(piece)
    assert await terminal.expect_data() == piece
    assert any_broker.hub.connections.unfinished.size == 0


async def test_parts_of_fragmented_messages_count_too(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MESSAGE_SECONDS", 0.2)
    rank = await broker.rank()
    rank.websocket.transport.write(Frame(Opcode.TEXT, bytes(1000), fin=False).serialize(mask=True))
    assert (await rank.closed())[0] == 4001


async def test_all_parts_together_are_bounded(broker: Broker) -> None:
    broker.hub.connections.unfinished.most = 4 * PART
    honest = await broker.rank(99)
    await send_part(honest, 20_000)
    for number in range(12):
        await send_part(await broker.rank(number), PART + 1000 * number)
    await broker.left(lambda hub: len(hub.ranks.links) == 4)
    assert KEY.replace("gpu013:0/8800", "gpu013:99/8899") in broker.hub.ranks.links
    assert broker.hub.connections.unfinished.size <= 4 * PART


async def test_many_whole_messages_leave_nothing_behind(any_broker: Broker) -> None:
    rank = await any_broker.rank()
    terminal = await any_broker.seated(KEY)
    for number in range(50):
        piece = Output(session=1, offset=number * PART, data=bytes(limits.MAX_DATA_BYTES))
        await rank.send(piece)
        assert await terminal.expect_data() == piece
    assert any_broker.hub.connections.unfinished.size == 0
