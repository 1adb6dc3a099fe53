"""Messages between a line debugger and its terminals, over real sockets."""

from __future__ import annotations

import pytest

from dbg_broker.quotas import TokenBucket
from dbg_wire import limits
from dbg_wire.codec import Output
from dbg_wire.messages import (
    Complete,
    Completions,
    Interrupt,
    Message,
    Mode,
    Probe,
    PromptInfo,
    PromptState,
    Refusal,
    RefusalCode,
    Repaint,
    Replay,
    Replied,
    Reply,
    Report,
    Seat,
    SessionInfo,
    Source,
    Take,
)
from tests.unit.broker.peers import STOPPED, WHERE, Broker, Peer, attach, registration

KEY = registration().identity.key
PROMPT = PromptInfo(number=3, offset=40, text="(Pdb) ", state=PromptState.COMMAND)
AT_PROMPT = STOPPED.replace(session=SessionInfo(number=1, engine="pdb", rows=24, columns=80), prompt=PROMPT)
REPLY = Reply(prompt=3, generation=1, text="p loss")
COMPLETE = Complete(request=1, prompt=3, generation=1, line="p lo", begin=2, end=4)
SOURCE = Source(where=WHERE, first=41, lines=("x = 1",), breakpoints=())


async def next_about_the_prompt(rank: Peer) -> Message | bytes:
    """Return the next message to a rank that is about its prompt, log or screen; skip probes and audiences."""
    while True:
        message = await rank.next()
        if isinstance(message, (Reply, Complete, Interrupt, Replay, Repaint)):
            return message


@pytest.mark.parametrize("message", [REPLY, COMPLETE, Interrupt(generation=1)])
async def test_what_the_driver_says_reaches_the_rank(broker: Broker, message: Message) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    await driver.say(message)
    assert await next_about_the_prompt(rank) == message


@pytest.mark.parametrize("message", [REPLY, COMPLETE, Interrupt(generation=1)])
async def test_nobody_else_may_say_it(broker: Broker, message: Message) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    other = await broker.terminal("other@h")
    await other.say(message)
    assert (await other.expect(Refusal)).code == RefusalCode.NOT_ATTACHED
    await other.say(attach(KEY, Mode.DRIVE))
    await other.expect(Seat)
    await other.say(message)
    assert (await other.expect(Refusal)).code == RefusalCode.NOT_DRIVING
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    await watcher.say(message)
    assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    await driver.say(Reply(prompt=3, generation=1, text="the driver's own"))
    assert await next_about_the_prompt(rank) == Reply(prompt=3, generation=1, text="the driver's own")


async def test_an_earlier_turn_at_the_keyboard_does_not_count(broker: Broker) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    first = await broker.seated(KEY)
    second = await broker.seated(KEY, "second@h")
    await second.say(Take())
    assert (await second.expect(Seat)).generation == 2
    await second.say(REPLY)
    assert (await second.expect(Refusal)).code == RefusalCode.NOT_DRIVING
    await first.say(REPLY)
    assert (await first.expect(Refusal)).code == RefusalCode.NOT_DRIVING
    await second.say(REPLY.replace(generation=2))
    assert await next_about_the_prompt(rank) == REPLY.replace(generation=2)


async def test_a_watcher_may_ask_for_the_log_and_all_get_it(broker: Broker) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    await watcher.say(Replay(session=1, offset=16))
    assert await next_about_the_prompt(rank) == Replay(session=1, offset=16)
    logged = Output(session=1, offset=16, data=b"(Pdb) p loss\n")
    await rank.send(logged)
    assert await driver.expect_data() == logged
    assert await watcher.expect_data() == logged


async def test_who_sits_nowhere_gets_no_log(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(Replay(session=1, offset=0))
    assert (await terminal.expect(Refusal)).code == RefusalCode.NOT_ATTACHED


async def test_replays_are_paced(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    spend = TokenBucket.spend

    def watched(pace: TokenBucket, size: int, now: float) -> float:
        rests.append(spend(pace, size, now))
        return rests[-1]

    monkeypatch.setattr(TokenBucket, "spend", watched)
    await broker.rank(report=AT_PROMPT)
    terminal = await broker.seated(KEY)
    await terminal.say(Replay(session=1, offset=0))
    await terminal.say(Reply(prompt=99, generation=7, text="later"))
    await terminal.expect(Refusal)
    assert max(rests) > 0


@pytest.mark.parametrize(
    "message",
    [Replied(prompt=3, taken=False, reason="too late"), Completions(request=1, matches=("loss",)), SOURCE],
)
async def test_what_the_rank_says_reaches_all_its_terminals(broker: Broker, message: Message) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    await rank.say(message)
    assert await driver.expect(type(message)) == message
    assert await watcher.expect(type(message)) == message


async def test_who_missed_a_part_of_the_log_is_told_where_it_sits_though_nothing_follows(broker: Broker) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    slow = await broker.seated(KEY)
    piece = b"x" * limits.MAX_DATA_BYTES
    sent = 0
    while not broker.hub.connections.meters.dropped_frames:
        await rank.send(Output(1, sent, piece))
        sent += len(piece)

    shown = 0
    while not isinstance(said := await slow.next(), Seat):
        shown += len(said) if isinstance(said, bytes) else 0
    assert shown < sent


async def test_a_log_is_never_repainted(broker: Broker) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    await driver.say(Repaint())
    await driver.say(REPLY)
    assert await next_about_the_prompt(rank) == REPLY
    await rank.say(Report(report=STOPPED.replace(generation=1)))
    await driver.expect(Report)
    await driver.say(Repaint())
    assert await next_about_the_prompt(rank) == Repaint()


@pytest.mark.parametrize(
    ("message", "fields"),
    [(COMPLETE, {"end": 99}), (COMPLETE, {"begin": -1}), (Replay(session=1, offset=0), {"offset": -1})],
)
async def test_what_can_not_be_meant_closes_the_connection(
    broker: Broker, message: Message, fields: dict[str, object]
) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    driver = await broker.seated(KEY)
    await driver.say_instead(message, **fields)
    assert (await driver.closed())[0] == 1002
    await rank.expect(Probe)


@pytest.mark.parametrize(
    ("message", "fields"), [(SOURCE, {"first": -1}), (Report(report=AT_PROMPT), {"report": {"state": "lost"}})]
)
async def test_what_can_not_be_true_closes_the_ranks_connection(
    broker: Broker, message: Message, fields: dict[str, object]
) -> None:
    rank = await broker.rank(report=AT_PROMPT)
    await rank.say_instead(message, **fields)
    assert (await rank.closed())[0] == 1002
