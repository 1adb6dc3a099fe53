"""The ranks of other brokers, as each broker lists them."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.hub import departures
from dbg_broker.hub.cluster.messages import MirroredRank, MirrorPage, Sync, decode
from dbg_broker.hub.cluster.mirror import SYNC_SECONDS, is_newer, mirrored, record_of
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.rank_record import Elsewhere, RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_wire.messages import Arrival, Chosen, Goodbye, Kept, Refusal, RefusalCode, Report, Sender, Waiting, Welcome
from dbg_wire.records.ranks import NO_SEATS, Breakpoint, RankState, SeatCounts
from tests.conftest import Approved
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, WHERE, Peer, registration

NOW = 100.0


def entered(number: int = 0, fence: int = 1, **changes: Any) -> RankRecord:
    """Return a rank as its own broker has it."""
    registry = Registry()
    rank = registry.register(registration(number, **changes), NOW).rank
    rank.fence = fence
    return rank


def told(number: int = 0, fence: int = 1, by: str = "one", **changes: Any) -> RankRecord:
    """Return a rank as another broker has it of the one named ``by``."""
    return record_of(mirrored(entered(number, fence, **changes), NO_SEATS, NOW), by, NOW)


def test_a_rank_is_mirrored_as_it_is_but_for_its_breakpoints_and_its_secret() -> None:
    report = STOPPED.replace(user_breakpoints=(Breakpoint(file="/a.py", line=1),), queued=2)
    rank = entered(report=report, secret="s" * 64)
    rank.waits_in = "all_reduce"
    seats = SeatCounts(driver="me@h", watchers=2)
    # The clock of the broker that is told shows another time.
    copy = record_of(mirrored(rank, seats, NOW + 5), "one", 7.0)
    assert copy.info(epoch=0.0, seats=seats) == rank.info(epoch=2.0 - NOW, seats=seats)
    assert copy.elsewhere == Elsewhere("one", seats)
    assert copy.report == report.replace(user_breakpoints=())
    assert "s" * 64 not in str(mirrored(rank, seats, NOW))
    assert copy.is_same_process("s" * 64)
    assert not copy.is_same_process(copy.registration.secret)


FENCES = st.integers(0, 4)


@given(st.lists(st.tuples(st.sampled_from("abc"), FENCES), max_size=12))
def test_in_whatever_order_brokers_tell_the_highest_fence_has_the_rank(said: list[tuple[str, int]]) -> None:
    # A fence is given out once, to one broker.
    owner_of = {fence: by for by, fence in reversed(said)}
    registry = Registry()
    for _, fence in said:
        rank = told(fence=fence, by=owner_of[fence])
        message = mirrored(rank, NO_SEATS, NOW)
        if is_newer(message, owner_of[fence], registry.find(key(0))):
            registry.mirror(rank)
    highest = max((fence for _, fence in said), default=0)
    known = registry.find(key(0))
    if highest:
        assert known is not None
        assert (known.fence, known.owner) == (highest, owner_of[highest])
    else:
        assert known is None


def test_mirrored_ranks_are_not_counted_and_do_not_expire() -> None:
    registry = Registry()
    registry.mirror(told())
    assert registry.live() == 0
    rank = registry.find(key(0))
    assert rank is not None
    registry.orphaned(rank, NOW)
    assert (rank.state, rank.owner, registry.counts[RankState.LOST]) == (RankState.LOST, "", 1)
    assert registry.expire(NOW + 1e6) == [key(0)]
    assert +registry.counts == {}


def test_an_own_rank_that_is_at_another_broker_now_is_not_counted_any_more() -> None:
    registry = Registry()
    rank = registry.register(registration(), NOW).rank
    registry.disconnected(rank, NOW)
    registry.mirror(told(fence=2))
    assert +registry.counts == {}
    assert registry.expire(NOW + 1e6) == []
    back = registry.register(registration(), NOW).rank
    assert (back.owner, registry.counts[RankState.STOPPED]) == ("", 1)


def test_the_time_of_a_state_stays_as_it_was_told_first() -> None:
    registry = Registry()
    rank = entered()
    registry.mirror(record_of(mirrored(rank, NO_SEATS, NOW), "one", NOW))
    registry.mirror(record_of(mirrored(rank, NO_SEATS, NOW), "one", NOW + 0.3))
    known = registry.find(key(0))
    assert known is not None
    assert known.since == NOW - STOP.age


@pytest.mark.parametrize("own_is_first", [True, False])
def test_two_children_that_got_one_number_at_two_brokers_have_two(*, own_is_first: bool) -> None:
    # The key of the other broker's child is the later one or the earlier one.
    own, other = (1, 2) if own_is_first else (2, 1)
    registry = Registry()
    registry.register(registration(0, rank=0), NOW)
    child = registry.register(registration(own, rank=0, ancestors=(8800,)), NOW).rank
    assert child.child == 1
    theirs = told(other, rank=0, ancestors=(8800,))
    theirs.child = 1
    renamed = registry.mirror(theirs)
    assert [rank.key for rank in renamed] == ([] if own_is_first else [child.key])
    assert child.child == (1 if own_is_first else 2)


async def test_a_newcomer_learns_all_ranks_and_forgets_what_is_not_named(several: Several) -> None:
    for number in range(3):
        await several.brokers[0].rank(number)
    await several.listed(2)
    hub, cluster = several.brokers[1].hub, several.clusters[1]
    hub.ranks.registry.mirror(told(5, by="one"))
    cluster.mirror.ask("one")
    await several.until(lambda: hub.ranks.registry.find(key(5)) is None)
    assert [hub.ranks.registry.find(key(number)) is not None for number in range(3)] == [True] * 3


async def test_pages_of_many_ranks_arrive_whole(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_broker.hub.cluster.mirror.STEP_RANKS", 3)
    monkeypatch.setattr("dbg_broker.hub.cluster.mirror.PAGE_BYTES", 1000)
    for number in range(8):
        await several.brokers[0].rank(number)
    several.clusters[2].mirror.ask("one")
    await several.listed(7)
    assert len(several.brokers[2].hub.ranks.registry.keys()) == 8


async def test_of_a_flood_of_pages_a_broker_asks_anew(several: Several, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbg_broker.hub.cluster.mirror.MAX_PAGES", 2)
    mirror, asked = several.clusters[1].mirror, []
    several.clusters[0].on(Sync, lambda sender, _: asked.append(sender))
    mirror._sources["one"].pages = deque([MirrorPage()] * 2)
    mirror._receive("one", MirrorPage())
    await several.until(lambda: bool(asked))
    assert asked == ["two"]


async def test_held_ranks_of_one_broker_hear_of_those_of_another(several: Several) -> None:
    site = "/t.py:3"
    waits = {"site": site, "count": 1, "ranks": (0, 1)}
    held = await several.brokers[0].rank(0)
    other = await several.brokers[1].rank(1, report=RUNNING)
    await several.listed(0)
    await several.listed(1)
    await held.say(Report(report=STOPPED.replace(state=RankState.HELD, session=None, waits=Waiting(**waits))))  # type: ignore[arg-type]
    first = await held.expect(Chosen, lambda one: len(one.ranks) == 2)
    assert {(rank.rank, rank.arrived, rank.state) for rank in first.ranks} == {
        (0, 0, RankState.HELD),
        (1, 0, RankState.RUNNING),
    }
    await other.say(Report(report=RUNNING.replace(arrivals=(Arrival(site=site, arrived=1, completed=1),))))
    then = await held.expect(Chosen, lambda one: one.ranks[0].rank == 1)
    assert (then.ranks[0].arrived, then.ranks[0].completed) == (1, 1)
    await other.cut()
    lost = await held.expect(Chosen, lambda one: one.ranks[0].rank == 1)
    assert lost.ranks[0].state is RankState.LOST


async def test_ranks_of_all_brokers_are_kept_for_a_crash_at_one(several: Several) -> None:
    crashed = await several.brokers[0].rank(0, report=RUNNING)
    others = [await several.brokers[1].rank(1, report=RUNNING), await several.brokers[2].rank(2, report=RUNNING)]
    for number in range(3):
        await several.listed(number)
    await crashed.say(Report(report=STOPPED.replace(stop=STOP.replace(reason="crash"))))
    for other in others:
        assert (await other.expect(Kept)).ranks == (0,)
    await crashed.say(Report(report=RUNNING))
    for other in others:
        assert (await other.expect(Kept)).ranks == ()


async def test_the_first_failure_explains_ends_at_other_brokers(approved: Approved, several: Several) -> None:
    first = await several.brokers[0].rank(0)
    await several.brokers[1].rank(1)
    await several.listed(0)
    await several.listed(1)
    await first.say(Goodbye(exit=3, detail="ValueError: bad batch"))
    await several.listed(0, RankState.EXITED)
    hub = several.brokers[1].hub
    rank = hub.ranks.registry.find(key(1))
    assert rank is not None
    rank.end.signal = 15
    hub.ranks.links[key(1)].connection.abort()
    await several.until(lambda: rank.state is RankState.LOST)
    hub.ranks.registry.found_dead(rank, hub.timers.clock())
    departures.note_failure(hub, rank)
    approved(rank.end.cause)
    there = several.brokers[0].hub.ranks.registry
    await several.until(lambda: "status 3" in (there.find(key(1)) or rank).end.detail)


async def test_a_rank_is_closed_at_the_broker_that_has_an_older_claim(several: Several) -> None:
    first = await several.brokers[0].rank(0)
    await several.listed(0)
    second = await several.brokers[1].rank(0)
    assert (await first.closed())[0] == CloseCode.REPLACED
    hub = several.brokers[0].hub
    rank = hub.ranks.registry.find(key(0))
    assert rank is not None
    assert (rank.owner, rank.state, hub.ranks.links) == ("two", RankState.STOPPED, {})
    await second.say(Report(report=RUNNING))
    await several.listed(0, RankState.RUNNING)


async def test_another_process_takes_no_key_of_a_rank_at_another_broker(several: Several) -> None:
    await several.brokers[0].rank(0, secret="a" * 64)
    await several.listed(0)
    stranger = Peer(await several.brokers[1].dial("/agent", several.brokers[1].tokens.rank), Sender.AGENT)
    await stranger.say(registration(0, secret="b" * 64))
    assert (await stranger.expect(Refusal)).code == RefusalCode.TAKEN


async def test_a_child_at_another_broker_than_its_parent_is_numbered(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    child = await several.brokers[1].rank(1, rank=0, ancestors=(8800,))
    await several.listed(1)
    assert {broker.hub.ranks.registry.find(key(1)).address for broker in several.brokers} == {"gpu013:0.1"}  # type: ignore[union-attr]
    # A parent that comes later numbers its child at the other broker, which tells the child.
    late = await several.brokers[2].rank(3, rank=5, ancestors=(8804,))
    await several.listed(3)
    await several.brokers[0].rank(4, rank=5)
    assert (await late.expect(Welcome)).address == "gpu013:5.1"
    assert child.websocket


async def test_the_place_of_a_rank_that_has_ended_is_told(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await rank.say(Goodbye(exit=1, detail="ValueError", frames=(WHERE,)))
    await several.listed(0, RankState.EXITED)
    known = several.brokers[1].hub.ranks.registry.find(key(0))
    assert known is not None
    assert known.frames == (WHERE,)


async def test_an_ended_rank_of_a_broker_that_has_gone_is_told_to_newcomers_by_one_other(several: Several) -> None:
    for number in range(6):
        rank = await several.brokers[0].rank(number)
        await rank.say(Goodbye(exit=3, detail="ValueError: bad batch"))
        await several.listed(number, RankState.EXITED)
    several.kill(0)
    left = [several.brokers[1], several.brokers[2]]
    registries = [broker.hub.ranks.registry for broker in left]

    def owners(number: int) -> list[str]:
        return [known.owner for registry in registries if (known := registry.find(key(number))) is not None]

    await several.until(lambda: all(owners(number) in (["", "two"], ["three", ""]) for number in range(6)))
    # A newcomer knows nothing, and asks each of the others.
    for known in tuple(registries[1].ranks()):
        if known.owner == "two":
            registries[1].forget(known)
    several.clusters[2].mirror.ask("two")
    await several.until(lambda: len(registries[1].keys()) == 6)
    ends = [registry.find(key(number)).end for registry in registries for number in range(6)]  # type: ignore[union-attr]
    assert {(end.exit, end.detail) for end in ends} == {(3, "ValueError: bad batch")}
    # Whoever has it forgets it, and the other one does as well.
    mine = next(known for known in registries[0].ranks() if not known.owner)
    registries[0].forget(mine)
    departures.forget(left[0].hub, mine.key)
    await several.until(lambda: registries[1].find(mine.key) is None)


async def test_a_lost_rank_whose_process_is_found_gone_is_told_of_though_its_broker_has_gone(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    several.kill(0)
    hub, there = several.brokers[1].hub, several.brokers[2].hub.ranks.registry
    known = hub.ranks.registry.find(key(0))
    assert known is not None
    assert known.state is RankState.LOST
    monkeypatch.setattr(departures, "is_dead", lambda pid: True)
    hub.ranks.liveness.kernel = known.registration.kernel
    departures.look_for_process(hub, known)
    await several.until(lambda: there.find(key(0)).owner == "two")  # type: ignore[union-attr]
    assert there.find(key(0)).state is RankState.EXITED  # type: ignore[union-attr]


async def test_what_is_told_of_a_rank_is_true_when_it_is_told(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_broker.hub.cluster.mirror.STEP_RANKS", 2)
    for number in range(5):
        await several.brokers[0].rank(number)
    await several.listed(4)
    hub, told = several.brokers[0].hub, []

    def send(page: MirrorPage) -> bool:
        for one in msgspec.msgpack.decode(msgspec.msgpack.encode(page.ranks), type=tuple[MirroredRank, ...]):
            known = hub.ranks.registry.find(one.registration.identity.key)
            assert known is not None
            assert one.registration.report.queued == known.report.queued
            told.append(known.key)
        return True

    keys = [key(number) for number in range(5)]
    for step, _ in enumerate(several.clusters[0].feed._pages(keys, send), 1):
        # Each rank changes between two steps, and is told of by another page at once.
        for one in keys:
            rank = hub.ranks.registry.find(one)
            assert rank is not None
            rank.report = rank.report.replace(queued=step)
    assert told == keys


async def test_the_end_of_an_earlier_answer_ends_no_later_one(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    mirror, hub = several.clusters[1].mirror, several.brokers[1].hub
    sent = several.nats.buses["two"].sent
    several.clusters[0].on(Sync, lambda sender, message: None)
    mirror.ask("one")
    mirror.ask("one")
    first, second = [message for _, payload in sent if isinstance(message := decode(payload), Sync)][-2:]
    mirror._receive("one", MirrorPage(ends=first.number))
    assert hub.ranks.registry.find(key(0)) is not None
    mirror._receive("one", MirrorPage(ends=second.number))
    await several.until(lambda: hub.ranks.registry.find(key(0)) is None)


async def test_a_question_for_all_ranks_that_is_lost_is_asked_again(several: Several) -> None:
    await several.brokers[0].rank(0, report=STOPPED)
    await several.listed(0, RankState.STOPPED)
    two, bus = several.clusters[1], several.nats.buses["two"]
    # As when NATS comes back, and the other one is not there yet: it finds nothing missing.
    two.mirror.unheard()
    bus.loses = True
    two.mirror.ask("one")
    bus.loses = False
    bus.forget_losses()
    mirrored_rank = several.brokers[1].hub.ranks.registry.find(key(0))
    assert mirrored_rank is not None
    assert mirrored_rank.state is RankState.UNRESPONSIVE
    asked = len([payload for _, payload in bus.sent if isinstance(decode(payload), Sync)])
    now = several.brokers[1].hub.timers.clock()
    two.mirror.sweep(now + SYNC_SECONDS / 2)
    assert len([payload for _, payload in bus.sent if isinstance(decode(payload), Sync)]) == asked
    two.mirror.sweep(now + SYNC_SECONDS + 1.0)
    await several.listed(0, RankState.STOPPED)
    # Once it is answered nothing is asked any more.
    two.mirror.sweep(now + 10 * SYNC_SECONDS)
    assert len([payload for _, payload in bus.sent if isinstance(decode(payload), Sync)]) == asked + 1
