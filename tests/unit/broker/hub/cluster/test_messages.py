"""What brokers tell each other, on the bus and back."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.hub.cluster.messages import (
    MESSAGES,
    CloseLeg,
    ClusterMessage,
    Hello,
    LegFrame,
    LegRest,
    LegSaid,
    LegSilent,
    LegTaken,
    LogText,
    MirroredRank,
    MirrorPage,
    OpenLeg,
    Sync,
    decode,
    encode,
)
from dbg_broker.ranks.rank_record import RankEnd
from dbg_wire.errors import PeerError
from dbg_wire.messages import Action, Mode, Notice, Question, Seat, Subscribe
from dbg_wire.records.ranks import RankState
from tests.unit.broker.hub.cluster.brokers import presence
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import attach, registration

RANK = MirroredRank(
    registration=registration(child=1, secret="5" * 64),
    state=RankState.LOST,
    fence=7,
    since=1.5,
    heard=2.5,
    entered=3.5,
    end=RankEnd(at=0.5, left=0.5, exit=1, died=True, detail="killed"),
)

EXAMPLES: tuple[ClusterMessage, ...] = (
    Hello(presence=presence("other"), answers=True),
    MirrorPage(ranks=(RANK,), gone=("other",), ends=3),
    Sync(number=3),
    OpenLeg(leg=1, role=Role.DRIVER, name="me@host", token="", job=None, digest=b"d" * 32, peer="10.0.0.1:5"),
    LegSaid(leg=1, frame=b"\x82\x01n"),
    LegTaken(leg=1, count=4096),
    LegSilent(leg=1, seconds=3.5),
    LegFrame(leg=1, frame=b"\x81\x02{}"),
    LegRest(leg=1, seconds=0.5),
    CloseLeg(leg=1, by_terminal=True, code=1001, reason="it ends"),
    LogText(key="4711.0/0/gpu013:0/8800", text="loss=0.5", left_out=2),
)


def test_each_message_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(MESSAGES)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: ClusterMessage) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"\x91\xa5later",
        b"\x93\xa4said\x01",
        b"\x93\xa4said\xff\xc4\x01x",
        msgspec.msgpack.encode(["open", 1]),
    ],
)
def test_bytes_that_are_no_message_are_refused(payload: bytes) -> None:
    with pytest.raises(PeerError, match="can't be read"):
        decode(payload)


def test_a_field_of_a_later_release_is_left_out() -> None:
    later = msgspec.msgpack.encode(["taken", 1, 4096, False, "what comes later"])
    assert decode(later) == LegTaken(leg=1, count=4096)


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
