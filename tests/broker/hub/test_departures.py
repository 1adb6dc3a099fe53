"""Connections that the broker ends since they take too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbg_broker.hub import close_codes
from dbg_broker.net.budgets import Budget, Payer
from dbg_broker.ranks import live_bytes
from dbg_wire import limits
from dbg_wire.messages import Audience, Report
from dbg_wire.ranks import Breakpoint, RankState
from tests.broker.peers import RUNNING, Broker, registration


async def test_if_ranks_say_too_much_the_heaviest_is_closed_and_no_other(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_bytes, "MAX_LIVE_BYTES", limits.MIB)
    light = [await broker.rank(number) for number in range(3)]
    heavy = await broker.rank(3)
    points = tuple(Breakpoint(file=f"/{line}/" + "x" * 3000, line=1) for line in range(100))
    await heavy.say(Report(report=replace(RUNNING, user_breakpoints=points)))
    code, reason = await heavy.closed()
    assert (code, reason) == (close_codes.SLOW, "what it reports takes too much memory")
    assert broker.hub.meters.budgets.of(Payer.RANK, Budget.MEMORY) == 1
    for rank in light:
        await rank.say(Report(report=RUNNING))
    terminal = await broker.seated(registration(0).key)
    await light[0].expect(Audience, lambda audience: audience.driven)
    assert [rank.state for rank in broker.hub.registry.ranks()].count(RankState.LOST) == 1
    # It may come back, as light as the others.
    await broker.rank(3)
    assert broker.hub.live_bytes.size < limits.MIB
    await terminal.cut()
