"""Whatever another broker says that can be decoded: nothing of it raises, and each broker goes on with its ranks."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from dbg_broker.hub.cluster.messages import decode
from dbg_wire.errors import PeerError
from dbg_wire.messages import Action, Mode, Notice, Question, Seat, Subscribe
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import attach

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**53, 2**64 - 1, 0.5, 1e300, float("inf"), float("nan")),
    *("", "x", "\x1b]0;owned\x07", "\ud800"[:0], "é" * 5000, b"", b"\x00\xff", b"{" * 4096, b"\x81\x03abc"),
    *([], [[]], {}, {"type": "seat"}, [None] * 20),
    *(b'\x81\x10{"type":"seat"', b'{"type":"attach","key":"' + b"x" * 500 + b'"}', key(0), key(1), "two", "three"),
)
SEEDS = 20


def mutated(value: Any, random_: random.Random) -> Any:
    """Return a message's fields with one of them, at any depth, exchanged for something odd."""
    if isinstance(value, list) and value and random_.random() < 0.9:
        at = random_.randrange(len(value))
        return [mutated(one, random_) if number == at else one for number, one in enumerate(value)]
    if isinstance(value, dict) and value and random_.random() < 0.9:
        at = random_.choice(list(value))
        return {name: mutated(one, random_) if name == at else one for name, one in value.items()}
    return random_.choice(ODD)


async def talk(several: Several) -> set[bytes]:
    """Have terminals do all that goes from one broker to another, and return what the brokers have said."""
    rank, other = await several.brokers[0].rank(0), await several.brokers[1].rank(1)
    await several.listed(0)
    await several.listed(1)
    driver = await several.brokers[1].terminal("me@login1")
    await driver.say(Subscribe(logs=True))
    await driver.say(attach(key(0), Mode.DRIVE))
    await driver.expect(Seat)
    await driver.say(Question(request=3, keys=(key(0), key(1)), action=Action.WHERE, seconds=0.2))
    await rank.say(Notice(text="loss=0.5", is_log=True))
    await other.say(Notice(text="loss=0.7", is_log=True))
    await rank.say(Notice(text="hello"))
    await driver.expect(Notice, lambda notice: notice.text == "hello")
    await driver.say(attach(key(1), Mode.WATCH))
    await driver.expect(Seat)
    return {payload for bus in several.nats.buses.values() for _, payload in bus.sent}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_message_of_another_broker_raises(several: Several, seed: int) -> None:
    random_ = random.Random(seed)  # noqa: S311 - tries, no secrets
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    said = sorted(await talk(several))
    taken = 0
    for _ in range(300):
        fields = msgspec.msgpack.decode(random_.choice(said))
        payload = msgspec.msgpack.encode(mutated(fields, random_))
        try:
            decode(payload)
        except PeerError:
            pass
        else:
            taken += 1
        sender, receiver = random_.sample(sorted(several.nats.buses), 2)
        handlers = several.nats.buses[receiver].handlers
        assert handlers is not None
        handlers.received(sender, payload)
    assert taken > 0
    # What was begun by it ends without an error, and each broker goes on with its own ranks.
    for number, broker in enumerate(several.brokers[:2]):
        fresh = await broker.rank(number + 5)
        terminal = await broker.seated(key(number + 5))
        await fresh.say(Notice(text="there"))
        assert (await terminal.expect(Notice)).text == "there"
    assert failed == []
