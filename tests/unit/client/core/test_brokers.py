"""Several brokers as one link: one list, one answer, a seat at any of them, and what happens when one is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import pytest

from dbg_client.core import brokers as module
from dbg_client.core.asking import Asker
from dbg_client.core.brokers import Brokers
from dbg_client.core.errors import Declined
from dbg_client.core.link import Connection, Down, Event, SeatDown, SeatUp, Up
from dbg_client.core.switchboard import Switchboard, open_and_list
from dbg_client.core.wait_progress import WaitingLine
from dbg_client.seat.seat import Seat as Sitting
from dbg_wire.messages import (
    Action,
    Attach,
    BrokerAddress,
    Change,
    Detach,
    Greet,
    Kind,
    Mode,
    Question,
    Refusal,
    RefusalCode,
    Seat,
    Snapshot,
    Subscribe,
    Welcome,
    Withdraw,
)
from dbg_wire.records.ranks import RankInfo
from tests.conftest import Approved
from tests.support.certificates import certified
from tests.support.time_unit import seconds
from tests.unit.client.core.test_link import Listener, Where, named, reach
from tests.unit.client.fake_broker import FakeBroker, make_rank

PATIENCE = seconds(10)

T = TypeVar("T")
FIRST, SECOND, THIRD = make_rank(0), make_rank(1), make_rank(2)


@pytest.fixture
def three() -> Iterator[tuple[FakeBroker, ...]]:
    """Yield three brokers, each with one rank, of which each names all."""
    with ExitStack() as opened:
        found = tuple(opened.enter_context(FakeBroker(rank)) for rank in (FIRST, SECOND, THIRD))
        know_each_other(*found)
        yield found


def know_each_other(*brokers: FakeBroker) -> None:
    for broker in brokers:
        broker.brokers = (named(broker), *(named(other) for other in brokers if other is not broker))


def send_welcome(broker: FakeBroker) -> None:
    """Have a broker report that the members have changed."""
    broker.send_all(Welcome(minor=0, release="0.1.0", host="login1", pid=1, uptime=1.0, brokers=broker.brokers))


@asynccontextmanager
async def switchboard_to(broker: FakeBroker) -> AsyncIterator[Switchboard]:
    switchboard = Switchboard(lambda: Brokers(Where(reach(broker.port)), "me@here", PATIENCE), PATIENCE)
    await switchboard.open()
    try:
        yield switchboard
    finally:
        await switchboard.close()


class Heard:
    """The events that come from now on."""

    def __init__(self, switchboard: Switchboard) -> None:
        self.events: list[Event] = []
        self._switchboard = switchboard

    async def receive(self, event: Event) -> None:
        self.events.append(event)

    async def until(self, kind: type[T]) -> T:
        def found() -> T | None:
            return next((event for event in self.events if isinstance(event, kind)), None)

        return await self._switchboard.until(found, PATIENCE)


def numbers(switchboard: Switchboard) -> list[int]:
    return sorted(rank.rank for rank in switchboard.directory.ranks)


async def test_ranks_of_all_brokers_form_one_list(three: tuple[FakeBroker, ...]) -> None:
    async with switchboard_to(three[0]) as switchboard:
        assert numbers(switchboard) == [0, 1, 2]
        three[2].send_all(Change(rank=make_rank(7)))
        await switchboard.until(lambda: numbers(switchboard) == [0, 1, 2, 7] or None, PATIENCE)
        assert not switchboard.unreachable


async def test_unreachable_broker_is_named_and_its_ranks_are_added_later(
    three: tuple[FakeBroker, ...], approved: Approved
) -> None:
    three[1].stop()
    switchboard = Switchboard(lambda: Brokers(Where(reach(three[0].port)), "me@here", PATIENCE), PATIENCE)
    messages: list[str] = []
    await open_and_list(switchboard, WaitingLine(), messages.append)
    approved("\n".join(messages))
    assert numbers(switchboard) == [0, 2]
    with FakeBroker(SECOND, port=three[1].port):
        await switchboard.until(lambda: numbers(switchboard) == [0, 1, 2] or None, PATIENCE)
        assert not switchboard.unreachable
    await switchboard.close()


async def test_a_broker_that_joins_is_dialled(three: tuple[FakeBroker, ...]) -> None:
    know_each_other(*three[:2])
    async with switchboard_to(three[0]) as switchboard:
        assert numbers(switchboard) == [0, 1]
        know_each_other(*three)
        send_welcome(three[1])
        await switchboard.until(lambda: numbers(switchboard) == [0, 1, 2] or None, PATIENCE)


async def test_a_question_to_ranks_of_several_brokers_has_one_answer(three: tuple[FakeBroker, ...]) -> None:
    async with switchboard_to(three[0]) as switchboard:
        answers = await Asker(switchboard).ask(Action.WHERE, [THIRD, FIRST, SECOND])
        assert [(answer.key, answer.kind) for answer in answers] == [
            (rank.key, Kind.VALUE) for rank in (THIRD, FIRST, SECOND)
        ]
        for broker, rank in zip(three, (FIRST, SECOND, THIRD), strict=True):
            assert (await broker.heard(Question)).keys == (rank.key,)


async def test_question_refused_by_one_broker_is_withdrawn_from_others(three: tuple[FakeBroker, ...]) -> None:
    three[0].silent.add(Question)
    three[1].refusals[Question] = Refusal(code=RefusalCode.FULL, text="16 questions are open")
    async with switchboard_to(three[0]) as switchboard:
        with pytest.raises(Declined):
            await Asker(switchboard).ask(Action.WHERE, [FIRST, SECOND])
        asked = await three[0].heard(Question)
        assert (await three[0].heard(Withdraw)).request == asked.request


async def test_ranks_of_a_broker_that_dies_during_a_question_are_silent(
    three: tuple[FakeBroker, ...],
) -> None:
    three[1].silent.add(Question)
    async with switchboard_to(three[0]) as switchboard:
        asking = asyncio.create_task(Asker(switchboard).ask(Action.WHERE, [FIRST, SECOND]))
        await three[1].heard(Question)
        three[1].stop()
        assert [answer.kind for answer in await asking] == [Kind.VALUE, Kind.SILENT]
        # Its ranks stay listed, and whoever asks them again does not wait.
        assert numbers(switchboard) == [0, 1, 2]
        (answer,) = await Asker(switchboard).ask(Action.WHERE, [SECOND])
        assert answer.kind is Kind.SILENT


@asynccontextmanager
async def seated(switchboard: Switchboard, rank: RankInfo) -> AsyncIterator[Sitting]:
    seat = Sitting(switchboard, rank, Mode.DRIVE)
    async with seat.held():
        await seat.hold_keyboard()
        yield seat


async def test_seat_is_only_at_the_broker_of_its_rank(
    three: tuple[FakeBroker, ...],
) -> None:
    async with switchboard_to(three[0]) as switchboard:
        async with seated(switchboard, THIRD) as seat:
            assert seat.attachment.driving
            seat.perform(seat.attachment.keys(b"n", 0.0))
        await three[2].heard(Detach)
        assert three[2].typed() == b"n"
        three[0].send_all(Change(rank=THIRD.replace(epoch=2)))
        await switchboard.until(lambda: switchboard.directory.by_key[THIRD.key].epoch or None, PATIENCE)
        assert [type(item) for item in three[2].received].count(Detach) == 1
        for broker in three[:2]:
            assert {type(item) for item in broker.received} == {Greet, Subscribe}


async def test_seat_follows_its_rank_from_a_killed_broker(
    three: tuple[FakeBroker, ...],
) -> None:
    async with switchboard_to(three[0]) as switchboard, seated(switchboard, SECOND) as seat:
        heard = Heard(switchboard)
        with switchboard.watched_by(heard.receive):
            three[1].stop()
            await heard.until(SeatDown)
            three[0].send_all(Change(rank=make_rank(7)))
            await switchboard.until(lambda: 7 in numbers(switchboard) or None, PATIENCE)
            assert not [event for event in heard.events if isinstance(event, SeatUp)]
            moved = SECOND.replace(epoch=2)
            three[2].ranks[moved.key] = moved
            three[2].send_all(Change(rank=moved))
            await heard.until(SeatUp)
            attach = await three[2].heard(Attach)
            assert (attach.key, attach.resume) == (SECOND.key, 1)
            await heard.until(Seat)
        assert seat.attachment.driving
        assert not [event for event in heard.events if isinstance(event, (Up, Down))]


async def test_seat_follows_its_rank_from_a_live_broker(three: tuple[FakeBroker, ...]) -> None:
    async with switchboard_to(three[0]) as switchboard, seated(switchboard, FIRST) as seat:
        heard = Heard(switchboard)
        with switchboard.watched_by(heard.receive):
            moved = FIRST.replace(epoch=2)
            three[2].ranks[moved.key] = moved
            three[2].send_all(Change(rank=moved))
            await heard.until(Seat)
        await three[0].heard(Detach)
        assert (await three[2].heard(Attach)).resume == 1
        # What its former broker still says is about a seat that has been left.
        three[0].send_all(three[0].seat(FIRST.key, generation=None))
        three[0].send_all(Change(rank=make_rank(7)))
        await switchboard.until(lambda: 7 in numbers(switchboard) or None, PATIENCE)
        assert seat.attachment.driving


async def test_broker_long_away_and_no_longer_named_is_forgotten(
    three: tuple[FakeBroker, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.3)
    async with switchboard_to(three[0]) as switchboard:
        know_each_other(three[0], three[2])
        for broker in (three[0], three[2]):
            send_welcome(broker)
        three[1].stop()
        await switchboard.until(lambda: numbers(switchboard) == [0, 2] or None, PATIENCE)


async def test_seat_at_a_forgotten_broker_moves_to_another_one(
    three: tuple[FakeBroker, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.3)
    async with switchboard_to(three[0]) as switchboard, seated(switchboard, SECOND):
        know_each_other(three[0], three[2])
        for broker in (three[0], three[2]):
            send_welcome(broker)
        heard = Heard(switchboard)
        with switchboard.watched_by(heard.receive):
            three[1].stop()
            await heard.until(SeatDown)
            await heard.until(SeatUp)


async def test_first_broker_is_forgotten_like_any_other(
    three: tuple[FakeBroker, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.3)
    async with switchboard_to(three[0]) as switchboard:
        know_each_other(*three[1:])
        for broker in three[1:]:
            send_welcome(broker)
        three[0].stop()
        await switchboard.until(lambda: numbers(switchboard) == [1, 2] or None, PATIENCE)
        assert switchboard.is_up
        answers = await Asker(switchboard).ask(Action.WHERE, [SECOND, THIRD])
        assert [answer.kind for answer in answers] == [Kind.VALUE] * 2


async def test_any_returning_broker_leads_to_the_others(three: tuple[FakeBroker, ...]) -> None:
    async with switchboard_to(three[0]) as switchboard:
        for broker in three:
            broker.stop()
        await switchboard.until(lambda: switchboard.directory.away, PATIENCE)
        assert not switchboard.is_up
        with FakeBroker(THIRD, port=three[2].port) as third, FakeBroker(SECOND, port=three[1].port) as second:
            know_each_other(third, second)
            heard = Heard(switchboard)
            with switchboard.watched_by(heard.receive):
                snapshot = await heard.until(Snapshot)
            assert {rank.rank for rank in snapshot.ranks} == {1, 2}
        await switchboard.until(lambda: switchboard.directory.away, PATIENCE)
        with FakeBroker(THIRD, port=three[2].port):
            await switchboard.listed(PATIENCE)
            assert numbers(switchboard) == [2]


async def test_seat_waits_for_the_list_of_its_restarted_broker(three: tuple[FakeBroker, ...]) -> None:
    async with switchboard_to(three[0]) as switchboard, seated(switchboard, SECOND):
        heard = Heard(switchboard)
        with switchboard.watched_by(heard.receive):
            three[1].stop()
            await heard.until(SeatDown)
            again = FakeBroker(port=three[1].port)
            again.silent.add(Subscribe)
            with again:
                await again.heard(Subscribe)
                three[0].send_all(Change(rank=make_rank(7)))
                await switchboard.until(lambda: 7 in numbers(switchboard) or None, PATIENCE)
                assert not [event for event in heard.events if isinstance(event, SeatUp)]
                # Its rank has not come back yet when the list is whole.
                again.send_all(Snapshot(ranks=(), last=True))
                await heard.until(SeatUp)
                assert not [item for item in again.received if isinstance(item, Attach)]
                again.ranks[SECOND.key] = SECOND
                again.send_all(Change(rank=SECOND))
                assert (await again.heard(Attach)).resume == 1


async def test_hanging_broker_does_not_block_the_list(three: tuple[FakeBroker, ...]) -> None:
    hangs = BrokerAddress(url=f"wss://127.0.0.1:{Listener().port}", fingerprint=three[0].fingerprint)
    for broker in three:
        broker.brokers = (*broker.brokers, hangs)
    switchboard = Switchboard(lambda: Brokers(Where(reach(three[0].port)), "me@here", seconds(4)), PATIENCE)
    await switchboard.open()
    assert numbers(switchboard) == [0, 1, 2]
    assert switchboard.unreachable == (hangs.url,)
    await switchboard.close()


async def test_a_silent_broker_is_not_asked(three: tuple[FakeBroker, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    silent = named(three[1]).url
    async with switchboard_to(three[0]) as switchboard:
        monkeypatch.setattr(
            Connection, "silent_since", property(lambda line: 1.0 if line.endpoint.url == silent else None)
        )
        answers = await Asker(switchboard).ask(Action.WHERE, [FIRST, SECOND])
    assert [answer.kind for answer in answers] == [Kind.VALUE, Kind.SILENT]


async def test_ranks_of_an_absent_member_stay_listed_and_its_link_dials_no_other(
    three: tuple[FakeBroker, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.0)
    async with switchboard_to(three[0]) as switchboard, seated(switchboard, SECOND):
        heard = Heard(switchboard)
        with switchboard.watched_by(heard.receive):
            three[1].stop()
            await heard.until(SeatDown)
        assert switchboard.unreachable
        # It comes back with another certificate, as another one says that knows it.
        with FakeBroker(make_rank(7), port=three[1].port, tls=certified()) as again:
            know_each_other(three[0], again, three[2])
            send_welcome(three[2])
            assert numbers(switchboard) == [0, 1, 2]
            await switchboard.until(lambda: numbers(switchboard) == [0, 2, 7] or None, PATIENCE)
        for broker in (three[0], three[2]):
            assert [type(item) for item in broker.received].count(Greet) == 1


async def test_broker_reached_by_two_links_is_counted_once(three: tuple[FakeBroker, ...]) -> None:
    where = Where(reach(three[0].port))
    switchboard = Switchboard(lambda: Brokers(where, "me@here", PATIENCE), PATIENCE)
    await switchboard.open()
    # Its home calls the second one by another name than the others do.
    where.reach = replace(reach(three[1].port), endpoint=replace(reach(three[1].port).endpoint, host="localhost"))
    three[0].stop()
    await three[1].heard(Subscribe, count=2)
    await switchboard.until(lambda: numbers(switchboard) == [1, 2] or None, PATIENCE)
    heard = Heard(switchboard)
    with switchboard.watched_by(heard.receive):
        three[1].send_all(Change(rank=make_rank(7)))
        await switchboard.until(lambda: 7 in numbers(switchboard) or None, PATIENCE)
        three[1].send_all(Change(rank=make_rank(8)))
        await switchboard.until(lambda: 8 in numbers(switchboard) or None, PATIENCE)
    assert [event.rank.rank for event in heard.events if isinstance(event, Change)] == [7, 8]
    await switchboard.close()
