"""Connections that the broker ends since they take too much."""

from __future__ import annotations

import pytest

from dbg_broker.net.metrics import Budget, Payer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks import held_ranks
from dbg_wire import limits, messages
from dbg_wire.messages import Audience, Finding, Pulse, RankReport, Report, Sender, Waiting, Welcome
from dbg_wire.records.ranks import Breakpoint, Place, RankState
from tests.unit.broker.peers import RUNNING, STOP, WHERE, Broker, Peer, registration


async def test_if_ranks_say_too_much_the_heaviest_is_closed_and_no_other(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.hub.ranks.live_bytes.most = limits.MIB
    light = [await broker.rank(number) for number in range(3)]
    heavy = await broker.rank(3)
    points = tuple(Breakpoint(file=f"/{line}/" + "x" * 3000, line=1) for line in range(100))
    await heavy.say(Report(report=RUNNING.replace(user_breakpoints=points)))
    code, reason = await heavy.closed()
    assert (code, reason) == (CloseCode.SLOW, "what it reports takes too much memory")
    assert broker.hub.connections.meters.budgets.of(Payer.RANK, Budget.MEMORY) == 1
    for rank in light:
        await rank.say(Report(report=RUNNING))
    terminal = await broker.seated(registration(0).identity.key)
    await light[0].expect(Audience, lambda audience: audience.driven)
    assert [rank.state for rank in broker.hub.ranks.registry.ranks()].count(RankState.LOST) == 1
    # It may come back, as light as the others.
    await broker.rank(3)
    assert broker.hub.ranks.live_bytes.size < limits.MIB
    await terminal.cut()


DEEP = (Place(file="/" + "x" * 4000, line=1, function="f"),) * limits.MAX_STACK_FRAMES
MOST = tuple(Breakpoint(file=f"/{line}/{'x' * 4000}", line=1, condition="c" * 900) for line in range(100))


async def test_a_rank_that_says_more_than_one_may_is_closed_and_no_other(broker: Broker) -> None:
    other, heavy = await broker.rank(0), await broker.rank(1)
    # All breakpoints that a rank may have are kept.
    await heavy.say(Report(report=RUNNING.replace(user_breakpoints=MOST)))
    await heavy.say(Pulse(where=WHERE, frames=(WHERE,) * limits.MAX_STACK_FRAMES))
    await heavy.say(Pulse(where=WHERE, frames=DEEP))
    assert await heavy.closed() == (CloseCode.SLOW, "what it reports takes too much memory")
    budgets = broker.hub.connections.meters.budgets
    assert (budgets.of(Payer.RANK, Budget.MEMORY_OF_RANK), budgets.of(Payer.RANK, Budget.MEMORY)) == (1, 0)
    await broker.seated(registration(0).identity.key)
    await other.expect(Audience, lambda audience: audience.driven)


async def test_a_rank_that_waits_for_too_many_others_is_closed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_ranks, "MAX_WAITED_FOR", 1000)
    other, heavy = await broker.rank(0), await broker.rank(1)
    stop = STOP.replace(reason="hold")
    for rank, size in ((other, 900), (heavy, 2000)):
        waits = Waiting(site=f"s{size}", count=1, ranks=tuple(range(10, 10 + size)))
        await rank.say(Report(report=RankReport(state=RankState.HELD, stop=stop, waits=waits)))
    assert await heavy.closed() == (CloseCode.SLOW, "what it reports takes too much memory")
    assert broker.hub.connections.meters.budgets.of(Payer.RANK, Budget.MEMORY) == 1
    assert broker.hub.ranks.held.size == 900
    await other.say(Report(report=RUNNING))
    await broker.seated(registration(0).identity.key)
    await other.expect(Audience, lambda audience: audience.driven)
    assert broker.hub.ranks.held.size == 0


async def test_what_a_guard_says_counts_as_said_by_its_rank(broker: Broker) -> None:
    """A guard may enter a rank that has never connected; what it says is kept as well."""
    guard = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    said = registration(0, report=RUNNING.replace(user_breakpoints=MOST))
    testimony = messages.Testimony(
        minor=0, key=said.identity.key, kind=Finding.SUSPENDED, frames=(WHERE,), registration=said
    )
    await guard.say(testimony)
    await guard.expect(Welcome)
    assert broker.hub.ranks.live_bytes.size > limits.MIB

    await guard.say(testimony.replace(registration=None, frames=DEEP))
    assert await guard.closed() == (CloseCode.SLOW, "what it reports takes too much memory")
    assert (broker.hub.ranks.live_bytes.size, len(broker.hub.ranks.guards)) == (0, 0)
