"""Break into one rank and wait until it has stopped; a user who gives up withdraws the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.waiting import until_stopped
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo

WITHDRAWAL_SECONDS = 2.0
"""Seconds to wait for the answer to a withdrawal, which is sent by then: a user who gave up does not wait long."""

Report = Callable[[RankAnswer], None]


def report_nothing(_: RankAnswer) -> None:
    """Drop an answer that nobody waits for."""


async def break_in(
    switchboard: Switchboard,
    asker: Asker,
    rank: RankInfo,
    *,
    seconds: float | None = None,
    waits: Report = report_nothing,
    withdrawn: Report = report_nothing,
) -> RankInfo | RankAnswer:
    """Return the rank as it is listed once it has stopped, or its answer if it does not stop.

    The rank has ``seconds`` to answer, by default the asker's. ``waits`` gets the answer of a rank that stops when its
    C code returns. Cancelling this withdraws the request; ``withdrawn`` gets the answer to that. Raises DbgError.
    """
    try:
        (answer,) = await asker.ask(Action.INTERRUPT, [rank], seconds=seconds)
        if answer.kind not in (Kind.VALUE, Kind.RUNNING):
            return answer
        if answer.kind is Kind.RUNNING:
            waits(answer)
        return await until_stopped(switchboard, rank)
    except asyncio.CancelledError:
        (answer,) = await asker.ask(Action.INTERRUPT, [rank], withdrawn=True, seconds=WITHDRAWAL_SECONDS)
        withdrawn(answer)
        raise
