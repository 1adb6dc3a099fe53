"""The ranks of other brokers, as each broker lists them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.hub.cluster.mirror import is_newer, mirrored, record_of
from dbg_broker.ranks.rank_record import Elsewhere, RankRecord
from dbg_broker.ranks.registry import Registry
from dbg_wire.messages import Arrival, Chosen, Kept, Refusal, RefusalCode, Report, Sender, Waiting
from dbg_wire.records.ranks import NO_SEATS, Breakpoint, RankState, SeatCounts
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, Peer, registration

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


async def test_another_process_takes_no_key_of_a_rank_at_another_broker(several: Several) -> None:
    await several.brokers[0].rank(0, secret="a" * 64)
    await several.listed(0)
    stranger = Peer(await several.brokers[1].dial("/agent", several.brokers[1].tokens.rank), Sender.AGENT)
    await stranger.say(registration(0, secret="b" * 64))
    assert (await stranger.expect(Refusal)).code == RefusalCode.TAKEN
