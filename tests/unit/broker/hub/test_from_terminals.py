"""Messages between a rank and its terminals, over real sockets."""

from __future__ import annotations

import pytest

from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Applied,
    Audience,
    Change,
    Detach,
    Discarded,
    Goodbye,
    Mode,
    Refusal,
    RefusalCode,
    Repaint,
    Report,
    Resize,
    Seat,
    Snapshot,
    Subscribe,
    Take,
)
from dbg_wire.records.ranks import Breakpoint, RankState
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, Broker, attach, registration

KEY = registration().identity.key


def keys(data: bytes, generation: int = 1, offset: int = 0) -> Input:
    return Input(session=1, stop=1, generation=generation, offset=offset, data=data)


async def test_output_reaches_every_terminal_unchanged(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    watcher = await broker.seated(KEY, "you@login1", Mode.WATCH)
    drawn = Output(session=1, offset=0, data=b"\x1b[2J\x00\xff hello")
    await rank.send(drawn)
    assert await driver.expect_data() == drawn
    assert await watcher.expect_data() == drawn


async def test_input_of_the_driver_reaches_the_rank_and_is_acknowledged(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await driver.send(keys(b"n"))
    assert await rank.expect_data() == keys(b"n")
    await rank.say(Applied(generation=1, offset=1))
    assert await driver.expect(Applied) == Applied(generation=1, offset=1)


async def test_breakpoints_reach_the_terminals_at_the_rank_and_are_not_listed(broker: Broker) -> None:
    told = (Breakpoint(file="/home/me/train.py", line=44, condition="loss > 9"),)
    rank = await broker.rank()
    first = await broker.seated(KEY)
    await rank.say(Report(report=STOPPED.replace(user_breakpoints=told)))
    assert (await first.expect(Report)).report.user_breakpoints == told
    looker = await broker.terminal("list@login1")
    await looker.say(Subscribe())
    (listed,) = (await looker.expect(Snapshot)).ranks
    assert "loss > 9" not in str(listed)
    second = await broker.terminal("late@login1")
    await second.say(attach(KEY, Mode.WATCH))
    assert (await second.expect(Seat)).report.user_breakpoints == told


async def test_rank_hears_who_looks_and_at_what_size(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    seated = Audience(viewers=1, generation=1, rows=40, columns=120, colors=256, driven=True)
    assert await rank.expect(Audience) == seated
    await driver.say(Resize(rows=50, columns=200))
    assert await rank.expect(Audience) == seated.replace(rows=50, columns=200)
    await driver.say(Detach())
    left = seated.replace(rows=50, columns=200, viewers=0, driven=False)
    assert await rank.expect(Audience) == left


async def test_a_dead_terminal_leaves_the_rank_as_a_detached_one_does(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await driver.cut()
    await rank.expect(Audience, lambda audience: audience.viewers == 0)


async def test_newcomer_gets_a_repaint_of_an_open_session(broker: Broker) -> None:
    rank = await broker.rank()
    await broker.seated(KEY)
    await rank.expect(Repaint)
    await broker.seated(KEY, mode=Mode.WATCH)
    await rank.expect(Repaint)


async def test_second_driver_becomes_a_watcher_until_it_takes_the_keyboard(broker: Broker) -> None:
    await broker.rank()
    first = await broker.seated(KEY, "first@h")
    second = await broker.terminal("second@h")
    await second.say(attach(KEY, Mode.DRIVE))
    seat = await second.expect(Seat)
    assert (seat.generation, seat.driver) == (None, "first@h")
    await second.say(Take())
    assert (await second.expect(Seat)).generation == 2
    told = await first.expect(Seat)
    assert (told.generation, told.driver) == (None, "second@h")
    await first.send(keys(b"c"))
    assert (await first.expect(Refusal)).code == RefusalCode.NOT_DRIVING


async def test_input_of_an_earlier_generation_is_discarded_by_name(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await driver.say(attach(KEY))
    assert (await driver.expect(Seat)).generation == 2
    await driver.send(keys(b"abc", generation=1, offset=4))
    discarded = await driver.expect(Discarded)
    assert (discarded.generation, discarded.offset, discarded.count) == (1, 7, 3)
    await driver.send(keys(b"n", generation=2))
    assert await rank.expect_data() == keys(b"n", generation=2)


async def test_watchers_token_can_neither_type_nor_take_nor_drive(broker: Broker) -> None:
    rank = await broker.rank()
    watcher = await broker.seated(KEY, mode=Mode.WATCH)
    for attempt in (Take(), attach(KEY, Mode.DRIVE), attach(KEY, Mode.TAKE), attach(KEY, Mode.TAKE, resume=1)):
        await watcher.say(attempt)
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    for generation in (0, 1):
        await watcher.send(keys(b"c", generation))
        assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    driver = await broker.seated(KEY)
    await driver.send(keys(b"n"))
    assert await rank.expect_data() == keys(b"n")


async def test_report_reaches_the_terminals_and_the_list(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    moved = STOPPED.replace(stop=STOP.replace(where=STOP.where.replace(line=42)))
    await rank.say(Report(report=moved))
    assert (await driver.expect(Report)).report == moved
    change = await driver.expect(Change, lambda change: change.rank.where == STOP.where.replace(line=42))
    assert change.rank.driver == "me@login1"


async def test_terminal_keeps_its_seat_while_the_rank_is_lost_and_comes_back(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await rank.cut()
    await driver.expect(Change, lambda change: change.rank.state is RankState.LOST)
    again = await broker.rank(report=STOPPED.replace(generation=1, applied=3))
    seat = await driver.expect(Seat)
    assert (seat.generation, seat.report.applied) == (1, 3)
    await driver.send(keys(b"n", offset=3))
    assert await again.expect_data() == keys(b"n", offset=3)


async def test_rank_that_had_other_drivers_meanwhile_gives_the_driver_a_new_generation(broker: Broker) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    await rank.cut()
    await broker.rank(report=STOPPED.replace(generation=7))
    assert (await driver.expect(Seat)).generation == 8


async def test_terminal_that_comes_back_keeps_the_keyboard(broker: Broker) -> None:
    await broker.rank(report=STOPPED.replace(generation=4))
    first = await broker.terminal()
    await first.say(attach(KEY, resume=4))
    assert (await first.expect(Seat)).generation == 4
    await first.cut()
    again = await broker.terminal()
    await again.say(attach(KEY, resume=4))
    assert (await again.expect(Seat)).generation == 4


async def test_newer_connection_of_a_rank_takes_over(broker: Broker) -> None:
    first = await broker.rank()
    driver = await broker.seated(KEY)
    second = await broker.rank()
    assert (await first.closed())[0] == 4000
    await driver.send(keys(b"n"))
    assert await second.expect_data() == keys(b"n")
    assert broker.hub.ranks.registry.counts[RankState.STOPPED] == 1


async def test_exited_rank_can_not_be_attached(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    driver = await broker.seated(KEY)
    await rank.say(Goodbye(exit=-9))
    gone = await driver.expect(Change, lambda change: change.rank.state is RankState.EXITED)
    assert gone.rank.exit == -9
    await driver.say(attach(KEY))
    assert (await driver.expect(Refusal)).code == RefusalCode.GONE


@pytest.mark.parametrize("message", [Take(), Resize(rows=24, columns=80), Repaint()])
async def test_who_sits_nowhere_is_told_so(broker: Broker, message: Take | Resize | Repaint) -> None:
    terminal = await broker.terminal()
    await terminal.say(message)
    assert (await terminal.expect(Refusal)).code == RefusalCode.NOT_ATTACHED


async def test_unknown_rank_is_refused_with_its_key_escaped(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(attach("no/\x1b[31m"))
    refusal = await terminal.expect(Refusal)
    assert refusal.code == RefusalCode.NO_SUCH_RANK
    assert "no/" in refusal.text
    assert "\x1b" not in refusal.text
